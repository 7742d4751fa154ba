-- How far a backfill is. Runs before and after each step.
SELECT steps, steps_done, share_done, rows_read, rows_queued, rows_changed, rows_revived, rows_rejected, bytes_billed
FROM produce_backfill_status
WHERE topic_name = :#${properties:topic.name}
  AND source = :#${properties:twinbox.source}
  AND name = :#${exchangeProperty.backfill}
