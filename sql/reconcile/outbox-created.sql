-- Events of a topic that were put into the outbox within a span of time, from the last one seen on. Pages, not one long
-- statement: nothing holds back vacuum. Runs once per few thousand events of a reconciliation.
SELECT CAST(o.id AS text) AS id, o.topic_name, o.source, CAST(o.created_at AS text) AS created_at, o.seq
FROM pubsub_outbox AS o
WHERE o.created_at >= CAST(:from AS timestamptz)
  AND o.created_at < CAST(:until AS timestamptz)
  AND (o.created_at, o.seq) > (CAST(:afterTime AS timestamptz), CAST(:afterSeq AS bigint))
ORDER BY o.created_at, o.seq
LIMIT :rows
