-- Events that were published within a span of time and whose payload retention has deleted: their identities stay. Runs once
-- per slice of a reconciliation's span.
SELECT CAST(p.id AS text) AS id, p.source
FROM pubsub_outbox_published AS p
WHERE p.topic_name = :topic
  AND p.completed_at >= CAST(:from AS timestamptz)
  AND p.completed_at < CAST(:until AS timestamptz)
  AND NOT EXISTS (SELECT FROM pubsub_outbox AS o WHERE o.id = p.id)
