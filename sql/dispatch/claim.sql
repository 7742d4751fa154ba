-- Leases the next due rows without an ordering key, skipping rows that other pods hold. Runs with every poll of dispatch.
-- The lease is the next retry: rows of a pod that dies are due again when it ends.
WITH due AS MATERIALIZED (
  SELECT ctid AS tid, next_retry_at, payload_bytes
  FROM pubsub_outbox_due
  WHERE topic_name = :#${properties:topic.name}
    AND ordering_key IS NULL
    AND dead_at IS NULL
    AND next_retry_at <= now()
  ORDER BY next_retry_at
  LIMIT CAST(:#${exchangeProperty.claimLimit} AS int)
  FOR UPDATE SKIP LOCKED
),
-- A claim's payloads are held in memory together, so their sum is bounded; the first row always fits.
fitting AS MATERIALIZED (
  SELECT tid
  FROM (SELECT tid, sum(payload_bytes) OVER (ORDER BY next_retry_at, tid) - payload_bytes AS bytes_before
        FROM due) AS summed
  WHERE bytes_before < CAST(:#${properties:twinbox.dispatch.batch-bytes} AS bigint)
),
claimed AS (
  UPDATE pubsub_outbox_due AS d
  SET lock_id = :#${properties:twinbox.pod},
      claim_token = CAST(:#${exchangeProperty.claimToken} AS uuid),
      locked_at = now(),
      next_retry_at = now() + CAST(:#${properties:twinbox.dispatch.lease} AS interval),
      claims = d.claims + 1
  FROM fitting
  WHERE d.ctid = fitting.tid
  RETURNING d.seq, d.attempts
)
SELECT o.seq, o.id, o.payload, CAST(o.attributes AS text) AS attributes, o.ordering_key, c.attempts
FROM claimed AS c
JOIN pubsub_outbox AS o ON o.seq = c.seq
