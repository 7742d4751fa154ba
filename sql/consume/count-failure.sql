-- Counts a failure of a message's handler, over all pods, and returns how often it has failed now. Runs after the rollback.
INSERT INTO transactional_inbox_failure AS f (consumer, idempotency_key, last_error)
VALUES (:#${properties:twinbox.consumer}, :#${exchangeProperty.idempotencyKey}, left(:#${exchangeProperty.failure}, 2000))
ON CONFLICT ON CONSTRAINT transactional_inbox_failure_pkey
DO UPDATE SET attempts = f.attempts + 1, last_error = excluded.last_error, last_failed_at = now()
RETURNING attempts
