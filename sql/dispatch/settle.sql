-- Writes down what became of a claim's rows, all in one statement. Runs after every publish of dispatch.
-- Fenced by the claim token: a pod that lost its lease changes nothing of the new owner's.
-- Rows with an unknown outcome are not among the parameters: they wait out their lease and are published again.
-- Does not wait for the disk: what a crash of the server takes back was at worst published, and is published again.
-- Planned anew each time, from its second run on a connection on: a plan that is kept from when the queue was empty reads the
-- whole queue for each row, until the next vacuum.
-- Rows are looked up one by one, and changed by their addresses: the planner, when it takes the queue for empty or for
-- unclaimed, would make a join by comparing each row with each outcome. By its address a row is changed only as it was when
-- it was looked up, so never another claim's. IS NOT DISTINCT FROM keeps the planner from the index of the claimed, which
-- holds the dead rows of every claim before until vacuum.
WITH unsynced AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true) || set_config('plan_cache_mode', 'force_custom_plan', false) AS setting
),
published AS (
  DELETE FROM pubsub_outbox_due AS d
  WHERE d.ctid = ANY (ARRAY(
          SELECT q.ctid
          FROM unnest(CAST(:#publishedSeqs AS bigint[])) AS o (seq)
          CROSS JOIN LATERAL (SELECT ctid FROM pubsub_outbox_due WHERE seq = o.seq LIMIT 1) AS q))
    AND d.claim_token IS NOT DISTINCT FROM CAST(:#${exchangeProperty.claimToken} AS uuid)
  RETURNING d.seq
),
recorded AS (
  INSERT INTO pubsub_outbox_published (id, topic_name, completed_at, message_id, payload_hash, source)
  -- One time for the whole claim: a republish by time never parts what one claim sent.
  SELECT e.id, e.topic_name, statement_timestamp(), o.message_id, e.payload_hash, e.source
  FROM unnest(CAST(:#publishedSeqs AS bigint[]), CAST(:#messageIds AS text[])) AS o (seq, message_id)
  CROSS JOIN LATERAL (
    SELECT id, topic_name, payload_hash, source
    FROM pubsub_outbox
    WHERE seq = o.seq
    LIMIT 1) AS e
  -- IS TRUE keeps the planner from making a join of it: it looks the number up in a hash table.
  WHERE (o.seq IN (SELECT seq FROM published)) IS TRUE
  -- A republished event keeps its one row.
  ON CONFLICT ON CONSTRAINT pubsub_outbox_published_pkey
  DO UPDATE SET completed_at = excluded.completed_at, message_id = excluded.message_id
  RETURNING id
),
-- The message's own fault: exponential backoff with full jitter, counted from the failure; then dead.
refused AS (
  UPDATE pubsub_outbox_due AS d
  SET attempts = d.attempts + 1,
      last_error = (CAST(:#refusedErrors AS text[]))[array_position(CAST(:#refusedSeqs AS bigint[]), d.seq)],
      next_retry_at = clock_timestamp() + random() * least(
        CAST(:#${properties:twinbox.dispatch.backoff-cap} AS interval),
        CAST(:#${properties:twinbox.dispatch.backoff-base} AS interval) * power(2, least(d.attempts, 20))),
      dead_at = CASE WHEN d.attempts + 1 >= CAST(:#${properties:twinbox.dispatch.max-attempts} AS int) THEN clock_timestamp() END,
      solo = false,
      crashes = 0,
      lock_id = NULL,
      claim_token = NULL,
      locked_at = NULL
  WHERE d.ctid = ANY (ARRAY(
          SELECT q.ctid
          FROM unnest(CAST(:#refusedSeqs AS bigint[])) AS o (seq)
          CROSS JOIN LATERAL (SELECT ctid FROM pubsub_outbox_due WHERE seq = o.seq LIMIT 1) AS q))
    AND d.claim_token IS NOT DISTINCT FROM CAST(:#${exchangeProperty.claimToken} AS uuid)
  RETURNING d.dead_at
),
-- No fault of the row: due again at once, nothing counted.
released AS (
  UPDATE pubsub_outbox_due AS d
  SET last_error = coalesce(
        (CAST(:#releasedErrors AS text[]))[array_position(CAST(:#releasedSeqs AS bigint[]), d.seq)],
        d.last_error),
      next_retry_at = clock_timestamp(),
      solo = false,
      crashes = 0,
      lock_id = NULL,
      claim_token = NULL,
      locked_at = NULL
  WHERE d.ctid = ANY (ARRAY(
          SELECT q.ctid
          FROM unnest(CAST(:#releasedSeqs AS bigint[])) AS o (seq)
          CROSS JOIN LATERAL (SELECT ctid FROM pubsub_outbox_due WHERE seq = o.seq LIMIT 1) AS q))
    AND d.claim_token IS NOT DISTINCT FROM CAST(:#${exchangeProperty.claimToken} AS uuid)
  RETURNING d.seq
)
SELECT (SELECT count(*) FROM recorded) AS published,
       (SELECT count(*) FROM refused WHERE dead_at IS NULL) AS waiting,
       (SELECT count(*) FROM refused WHERE dead_at IS NOT NULL) AS dead,
       (SELECT count(*) FROM released) AS released
FROM unsynced
