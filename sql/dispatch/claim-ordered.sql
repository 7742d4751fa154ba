-- Leases the next due rows that have an ordering key, oldest first within a key. Runs with every poll of dispatch-ordered.
-- The lock on a key's oldest row is the lock on the key; a key whose oldest row waits, is dead or is claimed gives nothing.
-- A row whose claim ended without an outcome is left to claim-suspect.sql, and the rows of its key behind it wait.
-- With a floor it looks at the keys that have a row which came due since; without one (-infinity) at the next 600 keys behind
-- the cursor. The floor keeps it from reading the dead rows of what was claimed before, while vacuum may not remove them
-- (OrderedKeys).
-- In any case it looks at the keys of which the claim before left rows (held).
-- Always returns when it looked, whether that was too much (more came due, or more keys are held, than it looks at: a sweep
-- has to go through all keys), the held keys, and the cursor (the last key looked at, NULL at the end of the keys), with an
-- empty row when nothing was claimed.
-- Does not wait for the disk: a claim that a crash of the server takes back is made, and published, again.
-- Planned anew each time, from its second run on a connection on: a plan that is kept from when the queue was empty reads the
-- whole queue for each row, until the next vacuum.
WITH RECURSIVE unsynced AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true) || set_config('plan_cache_mode', 'force_custom_plan', false) AS setting
),
-- Lately due: more than the limit of these are looked for key by key.
fresh AS MATERIALIZED (
  SELECT ordering_key, next_retry_at
  FROM pubsub_outbox_due
  WHERE topic_name = :#${properties:topic.name}
    AND ordering_key IS NOT NULL
    AND dead_at IS NULL
    AND claim_token IS NULL
    AND next_retry_at <= now()
    AND next_retry_at >= CAST(:#${exchangeProperty.floor} AS timestamptz)
    AND CAST(:#${exchangeProperty.floor} AS timestamptz) > '-infinity'
  ORDER BY topic_name, next_retry_at
  LIMIT 2000
),
head AS (
  (SELECT 1 AS n, ordering_key, seq
   FROM pubsub_outbox_due
   WHERE topic_name = :#${properties:topic.name}
     AND ordering_key > :#${exchangeProperty.cursor}
     AND CAST(:#${exchangeProperty.floor} AS timestamptz) = '-infinity'
   ORDER BY topic_name, ordering_key, seq
   LIMIT 1)
  UNION ALL
  SELECT head.n + 1, next_key.ordering_key, next_key.seq
  FROM head
  CROSS JOIN LATERAL (
    SELECT ordering_key, seq
    FROM pubsub_outbox_due
    WHERE topic_name = :#${properties:topic.name}
      AND ordering_key > head.ordering_key
    ORDER BY topic_name, ordering_key, seq
    LIMIT 1) AS next_key
  WHERE head.n < 600
),
-- Behind the keys whose turn it is: those that were held and others that came due lately, the longest due first.
candidate AS MATERIALIZED (
  SELECT n, seq
  FROM head
  UNION ALL
  SELECT 600 + CAST(row_number() OVER (ORDER BY oldest.next_retry_at, oldest.seq) AS int), oldest.seq
  FROM (SELECT ordering_key
        FROM fresh
        UNION
        SELECT h.ordering_key
        FROM json_array_elements_text(CAST(:#${exchangeProperty.held} AS json)) AS h (ordering_key)
        EXCEPT
        SELECT ordering_key
        FROM head) AS k
  CROSS JOIN LATERAL (
    SELECT seq, next_retry_at
    FROM pubsub_outbox_due
    WHERE topic_name = :#${properties:topic.name}
      AND ordering_key = k.ordering_key
    ORDER BY topic_name, ordering_key, seq
    LIMIT 1) AS oldest
),
-- Row by row, because the planner, when it takes the queue for empty, would join by reading all dead rows of the queue.
locked AS MATERIALIZED (
  SELECT c.n, l.seq, l.ordering_key, l.tid
  FROM (SELECT n, seq FROM candidate ORDER BY n) AS c
  CROSS JOIN LATERAL (
    SELECT d.seq, d.ordering_key, d.ctid AS tid
    FROM pubsub_outbox_due AS d
    WHERE d.seq = c.seq
      AND d.next_retry_at <= now()
      AND d.dead_at IS NULL
      AND d.claim_token IS NULL
    LIMIT 1
    FOR UPDATE OF d SKIP LOCKED) AS l
  LIMIT CAST(:#${exchangeProperty.claimLimit} AS int)
),
-- The keys share the limit.
share AS MATERIALIZED (
  SELECT greatest(1, CAST(:#${exchangeProperty.claimLimit} AS int) / greatest(count(*), 1)) AS rows_of_key
  FROM locked
),
-- From the head on, up to the first row that is not due: rows behind it must not overtake it. Nothing of a key whose head was
-- locked as it is now, not as this statement sees its key: another claim had it meanwhile. The two limits that look
-- superfluous are numbers that the planner knows; without them it expects all rows of the keys, and reads the tables whole.
run AS MATERIALIZED (
  SELECT r.tid, l.n, r.seq, r.payload_bytes
  FROM locked AS l
  CROSS JOIN LATERAL (
    SELECT f.tid, f.seq, f.payload_bytes, bool_and(f.due AND (f.seq > l.seq OR f.tid = l.tid)) OVER (ORDER BY f.seq) AS unbroken
    FROM (
      SELECT k.tid, k.seq, k.payload_bytes, k.due
      FROM (
        SELECT ctid AS tid, seq, payload_bytes,
               next_retry_at <= now() AND dead_at IS NULL AND claim_token IS NULL AS due
        FROM pubsub_outbox_due
        WHERE topic_name = :#${properties:topic.name}
          AND ordering_key = l.ordering_key
          AND seq >= l.seq
        ORDER BY topic_name, ordering_key, seq
        LIMIT CAST(:#${exchangeProperty.claimLimit} AS int)) AS k
      LIMIT (SELECT rows_of_key FROM share)) AS f) AS r
  WHERE r.unbroken
  LIMIT CAST(:#${exchangeProperty.claimLimit} AS int)
),
-- Ordered by key and seq, what fits is a prefix of each key's run.
fitting AS MATERIALIZED (
  SELECT tid, n
  FROM (SELECT tid, n,
               sum(payload_bytes) OVER in_order - payload_bytes AS bytes_before
        FROM run
        WINDOW in_order AS (ORDER BY n, seq ROWS UNBOUNDED PRECEDING)) AS lined_up
  WHERE bytes_before < CAST(:#${properties:twinbox.dispatch.batch-bytes} AS bigint)
),
-- Keys that this claim may leave due rows of which will not show among those lately due: cut off by limit, share or bytes,
-- behind a row in flight, or at another pod that is claiming them. Not behind a row that waits: it takes them along when it
-- is due.
held AS MATERIALIZED (
  SELECT h.ordering_key
  FROM candidate AS c
  CROSS JOIN LATERAL (
    SELECT d.ordering_key, d.claim_token, d.next_retry_at, d.dead_at
    FROM pubsub_outbox_due AS d
    WHERE d.seq = c.seq
    LIMIT 1) AS h
  LEFT JOIN (SELECT n, count(*) AS rows FROM run GROUP BY n) AS r ON r.n = c.n
  LEFT JOIN (SELECT n, count(*) AS rows FROM fitting GROUP BY n) AS f ON f.n = c.n
  WHERE h.dead_at IS NULL
    AND CASE
          WHEN h.claim_token IS NULL
            THEN h.next_retry_at <= now()
                 AND (f.rows IS NULL OR f.rows < r.rows OR f.rows >= (SELECT rows_of_key FROM share))
          ELSE EXISTS (
            SELECT
            FROM (SELECT b.claim_token
                  FROM pubsub_outbox_due AS b
                  WHERE b.topic_name = :#${properties:topic.name}
                    AND b.ordering_key = h.ordering_key
                    AND b.seq > c.seq
                    AND b.claim_token IS NULL
                  ORDER BY b.topic_name, b.ordering_key, b.seq
                  LIMIT 1) AS behind)
        END
  LIMIT 301
),
claimed AS (
  UPDATE pubsub_outbox_due AS d
  SET lock_id = :#${properties:twinbox.pod},
      claim_token = CAST(:#${exchangeProperty.claimToken} AS uuid),
      locked_at = now(),
      next_retry_at = now() + CAST(:#${properties:twinbox.dispatch.lease} AS interval),
      claims = d.claims + 1
  WHERE d.ctid = ANY (ARRAY(SELECT tid FROM fitting))
    AND d.next_retry_at <= now()
    AND d.dead_at IS NULL
    AND d.claim_token IS NULL
  RETURNING d.seq, d.attempts
),
-- Where the next claim goes on: behind the last key that got its turn. Keys that the limit or the bytes cut off come next,
-- or the first keys, if always busy, would keep them out for ever.
scan AS (
  SELECT now() AS looked_at,
         (SELECT count(*) FROM fresh) = 2000 OR (SELECT count(*) FROM held) > 300 AS too_many,
         CASE WHEN (SELECT count(*) FROM held) > 300 THEN '[]'
              ELSE (SELECT CAST(coalesce(json_agg(ordering_key), '[]') AS text) FROM held) END AS held,
         (SELECT h.ordering_key
          FROM head AS h
          WHERE h.n = least(600, CASE
                                   WHEN (SELECT count(*) FROM fitting) < (SELECT count(*) FROM run)
                                     THEN (SELECT max(n) FROM fitting)
                                   WHEN (SELECT count(*) FROM locked) = CAST(:#${exchangeProperty.claimLimit} AS int)
                                     THEN (SELECT max(n) FROM locked)
                                 END)) AS cursor
)
SELECT scan.looked_at, scan.too_many, scan.held, scan.cursor,
       r.seq, r.id, r.payload, r.attributes, r.ordering_key, r.attempts, r.created_at
FROM unsynced
CROSS JOIN scan
LEFT JOIN (
  SELECT o.seq, o.id, o.payload, CAST(o.attributes AS text) AS attributes, o.ordering_key, c.attempts, o.created_at
  FROM claimed AS c
  CROSS JOIN LATERAL (
    SELECT seq, id, payload, attributes, ordering_key, created_at
    FROM pubsub_outbox
    WHERE seq = c.seq
    LIMIT 1) AS o) AS r ON true
ORDER BY r.seq
