-- Writes down what became of a claim's rows, all in one statement. Runs after every publish of dispatch.
-- Fenced by the claim token: a pod that lost its lease changes nothing of the new owner's.
-- Rows with an unknown outcome are not among the parameters: they wait out their lease and are published again.
-- Does not wait for the disk: what a crash of the server takes back was at worst published, and is published again.
-- Planned anew each time, from its second run on a connection on: a plan that is kept from when the queue was empty reads the
-- whole queue for each row, until the next vacuum.
WITH unsynced AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true) || set_config('plan_cache_mode', 'force_custom_plan', false) AS setting
),
outcome AS MATERIALIZED (
  SELECT seq, kind, message_id, error
  FROM unnest(CAST(:#seqs AS bigint[]), CAST(:#kinds AS text[]), CAST(:#messageIds AS text[]), CAST(:#errors AS text[]))
       AS o (seq, kind, message_id, error)
),
-- Row by row, because the planner, when it takes the queue for empty, would join by reading all of the queue for each row.
held AS MATERIALIZED (
  SELECT o.kind, o.message_id, o.error, q.tid
  FROM outcome AS o
  CROSS JOIN LATERAL (
    SELECT d.ctid AS tid, d.claim_token
    FROM pubsub_outbox_due AS d
    WHERE d.seq = o.seq
    LIMIT 1) AS q
  WHERE q.claim_token = CAST(:#${exchangeProperty.claimToken} AS uuid)
),
-- By its address a row is changed only as it was when it was looked up, so never another claim's.
published AS (
  DELETE FROM pubsub_outbox_due AS d
  USING held AS o
  WHERE d.ctid = o.tid
    AND d.claim_token = CAST(:#${exchangeProperty.claimToken} AS uuid)
    AND o.kind = 'PUBLISHED'
  RETURNING d.seq, o.message_id
),
recorded AS (
  INSERT INTO pubsub_outbox_published (id, topic_name, completed_at, message_id, payload_hash, source)
  -- One time for the whole claim: a republish by time never parts what one claim sent.
  SELECT e.id, e.topic_name, statement_timestamp(), p.message_id, e.payload_hash, e.source
  FROM published AS p
  JOIN pubsub_outbox AS e ON e.seq = p.seq
  -- A republished event keeps its one row.
  ON CONFLICT ON CONSTRAINT pubsub_outbox_published_pkey
  DO UPDATE SET completed_at = excluded.completed_at, message_id = excluded.message_id
  RETURNING id
),
-- The message's own fault: exponential backoff with full jitter, counted from the failure; then dead.
refused AS (
  UPDATE pubsub_outbox_due AS d
  SET attempts = d.attempts + 1,
      last_error = o.error,
      next_retry_at = clock_timestamp() + random() * least(
        CAST(:#${properties:twinbox.dispatch.backoff-cap} AS interval),
        CAST(:#${properties:twinbox.dispatch.backoff-base} AS interval) * power(2, least(d.attempts, 20))),
      dead_at = CASE WHEN d.attempts + 1 >= CAST(:#${properties:twinbox.dispatch.max-attempts} AS int) THEN clock_timestamp() END,
      solo = false,
      crashes = 0,
      lock_id = NULL,
      claim_token = NULL,
      locked_at = NULL
  FROM held AS o
  WHERE d.ctid = o.tid
    AND d.claim_token = CAST(:#${exchangeProperty.claimToken} AS uuid)
    AND o.kind = 'REFUSED'
  RETURNING d.dead_at
),
-- No fault of the row: due again at once, nothing counted.
released AS (
  UPDATE pubsub_outbox_due AS d
  SET last_error = coalesce(o.error, d.last_error),
      next_retry_at = clock_timestamp(),
      solo = false,
      crashes = 0,
      lock_id = NULL,
      claim_token = NULL,
      locked_at = NULL
  FROM held AS o
  WHERE d.ctid = o.tid
    AND d.claim_token = CAST(:#${exchangeProperty.claimToken} AS uuid)
    AND o.kind = 'RELEASED'
  RETURNING d.seq
)
SELECT (SELECT count(*) FROM recorded) AS published,
       (SELECT count(*) FROM refused WHERE dead_at IS NULL) AS waiting,
       (SELECT count(*) FROM refused WHERE dead_at IS NOT NULL) AS dead,
       (SELECT count(*) FROM released) AS released
FROM unsynced
