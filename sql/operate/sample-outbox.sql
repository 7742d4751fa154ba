-- What is queued, over all topics, for metrics and JMX. Runs every sample interval; the view bounds what it counts.
SELECT topic_name, due, claimed, waiting, dead,
       CAST(coalesce(extract(EPOCH FROM oldest_due_age), 0) AS double precision) AS oldest_due_seconds
FROM pubsub_outbox_backlog
ORDER BY topic_name
