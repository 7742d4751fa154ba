-- Lists a consumer's open dead letters. Runs when an operator asks.
SELECT id, idempotency_key, applied, replay_requested_at, attempts, reason, first_dead_at, last_dead_at, published_at, message_id,
       payload_bytes, CAST(attributes AS text) AS attributes
FROM inbox_dead(:consumer, CAST(:errorLike AS text), CAST(:olderThan AS interval), :maxRows)
