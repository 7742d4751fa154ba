-- How far each source was read and what that cost today, for metrics. Runs every sample interval.
SELECT s.topic_name, s.source,
       CAST(extract(EPOCH FROM clock_timestamp() - w.updated_at) AS double precision) AS moved_seconds,
       -- Only a TIMESTAMP says how old the newest row is.
       CASE WHEN w.type = 'TIMESTAMP'
            THEN CAST(extract(EPOCH FROM clock_timestamp() - CAST(w.value AS timestamptz)) AS double precision) END AS watermark_seconds,
       CAST(extract(EPOCH FROM clock_timestamp() - s.succeeded_at) AS double precision) AS success_seconds,
       s.failed,
       s.newest_state = 'failed' AS failing,
       produce_bytes_today(s.topic_name, s.source) AS bytes_today,
       t.slot_seconds_today, t.read_today, t.queued_today, t.changed_today, t.revived_today, t.rejected_today,
       b.steps AS backfill_steps, b.steps_done AS backfill_steps_done, b.bytes_billed AS backfill_bytes,
       (SELECT count(*)
        FROM (SELECT FROM produce_reject AS r
              WHERE r.topic_name = s.topic_name
                AND r.source = s.source
              LIMIT 10000) AS counted) AS rejected
FROM (
  -- Of the last hundred runs.
  SELECT k.topic_name, k.source,
         max(n.finished_at) FILTER (WHERE n.state = 'succeeded') AS succeeded_at,
         count(*) FILTER (WHERE n.state = 'failed') AS failed,
         (array_agg(n.state ORDER BY n.started_at DESC) FILTER (WHERE n.state <> 'running'))[1] AS newest_state
  FROM (SELECT topic_name, source FROM produce_watermark
        UNION
        SELECT topic_name, source FROM produce_run WHERE started_at > now() - interval '1 day') AS k
  CROSS JOIN LATERAL (
    SELECT r.state, r.started_at, r.finished_at
    FROM produce_run AS r
    WHERE r.topic_name = k.topic_name
      AND r.source = k.source
    ORDER BY r.started_at DESC
    LIMIT 100) AS n
  GROUP BY k.topic_name, k.source) AS s
LEFT JOIN produce_watermark AS w ON w.topic_name = s.topic_name AND w.source = s.source
CROSS JOIN LATERAL (
  SELECT CAST(coalesce(sum(d.slot_ms), 0) / 1000.0 AS double precision) AS slot_seconds_today,
         coalesce(sum(d.rows_read), 0) AS read_today,
         coalesce(sum(d.rows_queued), 0) AS queued_today,
         coalesce(sum(d.rows_changed), 0) AS changed_today,
         coalesce(sum(d.rows_revived), 0) AS revived_today,
         coalesce(sum(d.rows_rejected), 0) AS rejected_today
  FROM produce_run AS d
  WHERE d.topic_name = s.topic_name
    AND d.source = s.source
    AND d.started_at >= date_trunc('day', statement_timestamp() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC') AS t
-- The backfill that was begun last; no steps without one.
LEFT JOIN LATERAL (
  SELECT f.steps, f.steps_done, f.bytes_billed
  FROM produce_backfill_status AS f
  WHERE f.topic_name = s.topic_name
    AND f.source = s.source
  ORDER BY f.created_at DESC
  LIMIT 1) AS b ON true
ORDER BY s.topic_name, s.source
