-- Rows and dead rows of the tables that are written all the time, for metrics. Runs every sample interval; reads statistics only.
SELECT t.name AS table_name, CAST(sum(s.n_live_tup) AS bigint) AS live_rows, CAST(sum(s.n_dead_tup) AS bigint) AS dead_rows
FROM unnest(ARRAY['pubsub_outbox', 'pubsub_outbox_due', 'pubsub_outbox_published', 'transactional_inbox',
                  'transactional_inbox_failure', 'transactional_inbox_dead_letter']) AS t (name)
JOIN pg_stat_user_tables AS s
  ON s.relid = to_regclass(t.name)
  OR s.relid IN (SELECT p.relid FROM pg_partition_tree(to_regclass(t.name)) AS p)
GROUP BY t.name
ORDER BY t.name
