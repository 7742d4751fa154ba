-- Remembers which server and timeline this database is, and says whether it was another one. Runs at start, then hourly.
WITH now_here AS (
  SELECT CAST(s.system_identifier AS text) AS system_identifier, c.timeline_id
  FROM pg_control_system() AS s
  CROSS JOIN pg_control_checkpoint() AS c
),
before AS MATERIALIZED (
  SELECT system_identifier, timeline_id
  FROM transactional_inbox_server
),
remembered AS (
  INSERT INTO transactional_inbox_server (only_one, system_identifier, timeline_id)
  SELECT true, system_identifier, timeline_id
  FROM now_here
  ON CONFLICT (only_one)
  DO UPDATE SET system_identifier = excluded.system_identifier, timeline_id = excluded.timeline_id, seen_at = now()
)
SELECT n.system_identifier, n.timeline_id, b.system_identifier AS before_identifier, b.timeline_id AS before_timeline,
       b.system_identifier IS NOT NULL
         AND (b.system_identifier, b.timeline_id) IS DISTINCT FROM (n.system_identifier, n.timeline_id) AS changed
FROM now_here AS n
LEFT JOIN before AS b ON true
