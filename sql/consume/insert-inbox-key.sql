-- Takes a message's key in the transaction of its effect; 0 rows when it has taken effect before. Runs once per message.
-- While a twin is being processed this waits for it: 0 rows when the twin commits, 1 when it rolls back.
-- A message that takes effect is no longer failing, so its count of failures goes with it.
WITH forgotten AS (
  DELETE FROM transactional_inbox_failure
  WHERE consumer = :consumer
    AND idempotency_key = :idempotencyKey
)
INSERT INTO transactional_inbox (consumer, idempotency_key)
VALUES (:consumer, :idempotencyKey)
ON CONFLICT ON CONSTRAINT transactional_inbox_pkey DO NOTHING
