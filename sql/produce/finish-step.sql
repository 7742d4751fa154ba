-- Writes down that a step is done: all its rows are committed, so it is, whoever holds the claim by now. Runs after each step.
UPDATE produce_backfill_step AS s
SET done_at = clock_timestamp(),
    claim_token = NULL,
    claimed_until = NULL,
    run_id = r.run_id,
    rows_read = r.rows_read,
    rows_queued = r.rows_queued,
    rows_changed = r.rows_changed,
    rows_revived = r.rows_revived,
    rows_rejected = r.rows_rejected,
    bytes_billed = r.bytes_billed
FROM (
  SELECT u.backfill, u.backfill_step,
         max(u.run_id) FILTER (WHERE u.run_id = :#${exchangeProperty.runId}) AS run_id,
         max(u.rows_read) FILTER (WHERE u.run_id = :#${exchangeProperty.runId}) AS rows_read,
         coalesce(sum(u.rows_queued), 0) AS rows_queued,
         coalesce(sum(u.rows_changed), 0) AS rows_changed,
         coalesce(sum(u.rows_revived), 0) AS rows_revived,
         coalesce(sum(u.rows_rejected), 0) AS rows_rejected,
         sum(coalesce(u.bytes_billed, u.bytes_estimated)) AS bytes_billed
  FROM produce_run AS u
  WHERE u.topic_name = :#${properties:topic.name}
    AND u.source = :#${properties:twinbox.source}
    AND u.backfill = :#${exchangeProperty.backfill}
    AND u.backfill_step = CAST(:#${exchangeProperty.step[number]} AS int)
  GROUP BY u.backfill, u.backfill_step) AS r
WHERE s.topic_name = :#${properties:topic.name}
  AND s.source = :#${properties:twinbox.source}
  AND s.name = r.backfill
  AND s.number = r.backfill_step
  AND s.done_at IS NULL
