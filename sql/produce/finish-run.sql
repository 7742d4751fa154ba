-- Writes down how a run ended, and forgets runs of 35 days ago. Runs once per run of produce, also when it failed.
WITH finished AS (
  UPDATE produce_run
  SET state = :#state,
      finished_at = clock_timestamp(),
      bytes_processed = CAST(:#bytesProcessed AS bigint),
      bytes_billed = CAST(:#bytesBilled AS bigint),
      slot_ms = CAST(:#slotMs AS bigint),
      jobs = CAST(:#jobs AS int),
      -- Counted chunk by chunk; of none there was nothing to count.
      rows_read = coalesce(rows_read, 0),
      rows_queued = coalesce(rows_queued, 0),
      rows_changed = coalesce(rows_changed, 0),
      rows_revived = coalesce(rows_revived, 0),
      rows_rejected = coalesce(rows_rejected, 0),
      watermark_after = CAST(:#watermarkAfter AS text),
      error = CAST(:#error AS text)
  WHERE run_id = :#${exchangeProperty.runId}
)
DELETE FROM produce_run
WHERE topic_name = :#${properties:topic.name}
  AND source = :#${properties:twinbox.source}
  AND started_at < now() - interval '35 days'
