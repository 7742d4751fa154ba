-- What is queued, over all topics. Runs when an operator asks.
SELECT topic_name, due, claimed, waiting, dead, CAST(oldest_due_age AS text) AS oldest_due_age
FROM pubsub_outbox_backlog
ORDER BY topic_name
