-- Open dead letters of a consumer that came without a usable key within a span of time: nobody can tell which events they
-- are. Runs at the end of a reconciliation.
SELECT CAST(l.id AS text) AS id, l.reason
FROM transactional_inbox_dead_letter AS l
WHERE l.consumer = :consumer
  AND l.closed_at IS NULL
  AND l.last_dead_at >= CAST(:from AS timestamptz)
  AND l.idempotency_key IS NULL
  AND l.first_dead_at >= CAST(:from AS timestamptz)
  AND l.first_dead_at < CAST(:until AS timestamptz)
ORDER BY l.id
