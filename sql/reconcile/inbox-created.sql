-- Keys that a consumer took within a span of time: effects, and discarded letters; and keys of its open dead letters, which
-- the outbox need not know either. Runs once per slice of a reconciliation's span; the indexes by time know which pages.
SELECT i.idempotency_key
FROM transactional_inbox AS i
WHERE i.consumer = :consumer
  AND i.created_at >= CAST(:from AS timestamptz)
  AND i.created_at < CAST(:until AS timestamptz)
UNION ALL
SELECT l.idempotency_key
FROM transactional_inbox_dead_letter AS l
WHERE l.consumer = :consumer
  AND l.closed_at IS NULL
  AND l.last_dead_at >= CAST(:from AS timestamptz)
  AND l.idempotency_key IS NOT NULL
  AND l.first_dead_at >= CAST(:from AS timestamptz)
  AND l.first_dead_at < CAST(:until AS timestamptz)
