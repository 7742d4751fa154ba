-- Leases the next due rows without an ordering key, skipping rows that other pods hold. Runs with every poll of dispatch.
-- The lease is the next retry: rows of a pod that dies are due again when it ends.
-- A row whose claim ended without an outcome is left to claim-suspect.sql.
-- The floor keeps it from reading the dead rows of what was claimed before, while vacuum may not remove them (ClaimFloor).
-- Does not wait for the disk: a claim that a crash of the server takes back is made, and published, again.
-- Planned anew each time, from its second run on a connection on: a plan that is kept from when the queue was empty reads the
-- whole queue for each row, until the next vacuum.
WITH unsynced AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true) || set_config('plan_cache_mode', 'force_custom_plan', false) AS setting
),
due AS MATERIALIZED (
  SELECT ctid AS tid, next_retry_at, payload_bytes
  FROM pubsub_outbox_due
  WHERE topic_name = :#${properties:topic.name}
    AND ordering_key IS NULL
    AND dead_at IS NULL
    AND claim_token IS NULL
    AND next_retry_at <= now()
    AND next_retry_at >= CAST(:#${exchangeProperty.floor} AS timestamptz)
  ORDER BY next_retry_at
  LIMIT CAST(:#${exchangeProperty.claimLimit} AS int)
  FOR UPDATE SKIP LOCKED
),
-- A claim's payloads are held in memory together, so their sum is bounded; the first row always fits.
fitting AS MATERIALIZED (
  SELECT tid, next_retry_at AS due_at
  FROM (SELECT tid, next_retry_at,
               sum(payload_bytes) OVER oldest_first - payload_bytes AS bytes_before
        FROM due
        WINDOW oldest_first AS (ORDER BY next_retry_at, tid ROWS UNBOUNDED PRECEDING)) AS lined_up
  WHERE bytes_before < CAST(:#${properties:twinbox.dispatch.batch-bytes} AS bigint)
),
claimed AS (
  UPDATE pubsub_outbox_due AS d
  SET lock_id = :#${properties:twinbox.pod},
      claim_token = CAST(:#${exchangeProperty.claimToken} AS uuid),
      locked_at = now(),
      next_retry_at = now() + CAST(:#${properties:twinbox.dispatch.lease} AS interval),
      claims = d.claims + 1
  -- Not a join, which the planner, when it takes the queue for empty, makes by comparing each row with each that fits.
  WHERE d.ctid = ANY (ARRAY(SELECT tid FROM fitting))
  RETURNING d.seq, d.attempts, d.locked_at
)
SELECT o.seq, o.id, o.payload, CAST(o.attributes AS text) AS attributes, o.ordering_key, c.attempts,
       c.locked_at AS claimed_at, (SELECT max(due_at) FROM fitting) AS last_due_at, o.created_at
FROM claimed AS c
CROSS JOIN LATERAL (
  SELECT seq, id, payload, attributes, ordering_key, created_at
  FROM pubsub_outbox
  WHERE seq = c.seq
  LIMIT 1) AS o
WHERE (SELECT setting IS NOT NULL FROM unsynced)
