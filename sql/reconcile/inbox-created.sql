-- Keys that a consumer took within a span of time: effects, and discarded letters. Runs once per slice of a reconciliation's
-- span; the index by time knows which pages.
SELECT i.idempotency_key
FROM transactional_inbox AS i
WHERE i.consumer = :consumer
  AND i.created_at >= CAST(:from AS timestamptz)
  AND i.created_at < CAST(:until AS timestamptz)
