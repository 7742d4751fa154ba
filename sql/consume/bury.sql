-- Stores a message that cannot take effect, whole, unless a twin of it has taken effect meanwhile. Runs after the rollback.
-- While a twin is being processed this waits for it, as long as lock_timeout lets it.
WITH forgotten AS (
  DELETE FROM transactional_inbox_failure
  WHERE consumer = :#${properties:twinbox.consumer}
    AND idempotency_key = CAST(:#idempotencyKey AS text)
)
INSERT INTO transactional_inbox_dead_letter AS l
  (consumer, idempotency_key, message_id, payload, attributes, reason, attempts, published_at)
SELECT :#${properties:twinbox.consumer}, CAST(:#idempotencyKey AS text), :#messageId, CAST(:#payload AS bytea),
       CAST(:#attributes AS json), left(:#reason, 4000), CAST(:#attempts AS int), CAST(:#publishedAt AS timestamptz)
WHERE CASE
        WHEN CAST(:#idempotencyKey AS text) IS NULL THEN true
        ELSE inbox_key_is_free(:#${properties:twinbox.consumer}, :#idempotencyKey)
      END
ON CONFLICT ON CONSTRAINT transactional_inbox_dead_letter_once
DO UPDATE SET reason = excluded.reason,
              attempts = l.attempts + excluded.attempts,
              message_id = excluded.message_id,
              -- A message that took effect once and fails now has lost its effect, in a restore; its letter is open again.
              closed_at = CASE WHEN l.closed_as = 'discarded' THEN l.closed_at END,
              closed_as = CASE WHEN l.closed_as = 'discarded' THEN l.closed_as END,
              closed_by = CASE WHEN l.closed_as = 'discarded' THEN l.closed_by END,
              closed_reason = CASE WHEN l.closed_as = 'discarded' THEN l.closed_reason END,
              last_dead_at = now()
