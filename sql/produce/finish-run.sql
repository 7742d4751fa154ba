-- Writes down how a run ended, and forgets runs of 35 days ago. Runs once per run of produce, also when it failed.
WITH finished AS (
  UPDATE produce_run
  SET state = :#state,
      finished_at = clock_timestamp(),
      bytes_processed = CAST(:#bytesProcessed AS bigint),
      bytes_billed = CAST(:#bytesBilled AS bigint),
      slot_ms = CAST(:#slotMs AS bigint),
      jobs = CAST(:#jobs AS int),
      rows_read = CAST(:#read AS bigint),
      rows_queued = CAST(:#queued AS bigint),
      rows_changed = CAST(:#changed AS bigint),
      rows_revived = CAST(:#revived AS bigint),
      rows_rejected = CAST(:#rejected AS bigint),
      watermark_after = CAST(:#watermarkAfter AS text),
      error = CAST(:#error AS text)
  WHERE run_id = :#${exchangeProperty.runId}
)
DELETE FROM produce_run
WHERE topic_name = :#${properties:topic.name}
  AND source = :#${properties:twinbox.source}
  AND started_at < now() - interval '35 days'
