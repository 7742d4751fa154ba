-- Lists a topic's dead events. Runs when an operator asks.
SELECT id, ordering_key, blocked, dead_at, attempts, last_error, created_at, payload_bytes, CAST(attributes AS text) AS attributes
FROM outbox_dead(:topic, CAST(:errorLike AS text), CAST(:olderThan AS interval), :maxRows)
