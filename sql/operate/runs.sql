-- The last runs of a source, newest first, with their price. Runs when an operator asks.
SELECT run_id, state, started_at, finished_at, rows_read, rows_queued, rows_changed, rows_revived, rows_rejected,
       bytes_estimated, bytes_billed, watermark_before, watermark_after, error
FROM produce_run
WHERE topic_name = :topic
  AND source = :source
ORDER BY started_at DESC
LIMIT CAST(:maxRows AS int)
