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
ORDER BY s.topic_name, s.source
