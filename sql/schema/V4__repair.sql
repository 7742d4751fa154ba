-- Repair by operators: dead letters of both sides, discarded and republished events, and who did what and why.
--
-- The functions run with the rights of whoever calls them. They find their tables whatever the caller's search path is
-- (SET search_path FROM CURRENT). Texts in indexes are compared by their bytes (COLLATE "C").

-- Who did what ----------------------------------------------------------------------------------------------------------

CREATE TABLE twinbox_audit (
  id         bigint GENERATED ALWAYS AS IDENTITY,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  who        text NOT NULL,
  db_user    text NOT NULL DEFAULT session_user,
  action     text NOT NULL,
  topic_name text,
  consumer   text,
  reason     text NOT NULL,
  rows       bigint NOT NULL,
  detail     jsonb NOT NULL DEFAULT '{}',
  CONSTRAINT twinbox_audit_pkey PRIMARY KEY (id)
);

COMMENT ON TABLE twinbox_audit IS
  'One row per repair, written in the transaction of the repair: who did what, why, to how many rows, and with which filters or ids.';
COMMENT ON COLUMN twinbox_audit.who IS
  'As given, else the database user and, after a slash, the application_name of the session.';
COMMENT ON COLUMN twinbox_audit.db_user IS
  'As whom the session logged in to PostgreSQL. Nobody who calls a repair function can choose it.';

CREATE INDEX twinbox_audit_by_time
  ON twinbox_audit (at);

CREATE FUNCTION twinbox_who(who text)
RETURNS text
LANGUAGE sql
STABLE
AS $$
  SELECT coalesce(nullif(btrim(who), ''), concat_ws('/', session_user, nullif(current_setting('application_name'), '')))
$$;

COMMENT ON FUNCTION twinbox_who(text) IS
  'Who does something: as given, else the database user and, after a slash, the application_name of the session.';

CREATE FUNCTION twinbox_audit_add(
  who text, action text, topic_name text, consumer text, reason text, affected bigint, detail jsonb)
RETURNS void
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
  INSERT INTO twinbox_audit (who, action, topic_name, consumer, reason, rows, detail)
  VALUES (twinbox_who($1), $2, $3, $4, btrim($5), $6, jsonb_strip_nulls($7))
$$;

COMMENT ON FUNCTION twinbox_audit_add(text, text, text, text, text, bigint, jsonb) IS
  'Writes one row of twinbox_audit. Called by the repair functions.';

CREATE FUNCTION twinbox_check_repair(action text, reason text, max_rows int DEFAULT 1, per_second int DEFAULT 1)
RETURNS void
LANGUAGE plpgsql
IMMUTABLE
AS $$
BEGIN
  IF reason IS NULL OR btrim(reason) = '' THEN
    RAISE EXCEPTION '%: reason is missing; say why, it goes into twinbox_audit', action USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF max_rows IS NULL OR max_rows < 1 THEN
    RAISE EXCEPTION '%: max_rows is %; give 1 or more', action, coalesce(CAST(max_rows AS text), 'NULL') USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF per_second IS NULL OR per_second < 1 THEN
    RAISE EXCEPTION '%: per_second is %; give 1 or more', action, coalesce(CAST(per_second AS text), 'NULL') USING ERRCODE = 'invalid_parameter_value';
  END IF;
END
$$;

COMMENT ON FUNCTION twinbox_check_repair(text, text, int, int) IS
  'Refuses a repair without a reason or with figures that mean nothing.';

CREATE FUNCTION twinbox_error_matches(error text, error_like text)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
AS $$
  SELECT nullif(error_like, '') IS NULL OR coalesce(error ILIKE '%' || error_like || '%', false)
$$;

COMMENT ON FUNCTION twinbox_error_matches(text, text) IS
  'Whether an error contains a text, ignoring case; % and _ in it are LIKE''s wildcards. NULL or an empty text matches every error.';

-- Outbox: what is queued, for monitoring ---------------------------------------------------------------------------------------

CREATE VIEW pubsub_outbox_backlog AS
-- Topics by jumps over the partial indexes, and at most 100,000 rows of each kind counted per topic, each kind by an
-- index of its own: the cost is bounded however many rows wait. ORDER BY is the order of that index; without it the planner
-- may read the whole table per topic, or sort.
WITH RECURSIVE topic AS (
  SELECT least(
           (SELECT d.topic_name FROM pubsub_outbox_due AS d WHERE d.ordering_key IS NULL AND d.dead_at IS NULL
              AND d.claim_token IS NULL ORDER BY d.topic_name LIMIT 1),
           (SELECT d.topic_name FROM pubsub_outbox_due AS d WHERE d.ordering_key IS NOT NULL
            ORDER BY d.topic_name LIMIT 1),
           (SELECT d.topic_name FROM pubsub_outbox_due AS d WHERE d.claim_token IS NOT NULL
            ORDER BY d.topic_name LIMIT 1),
           (SELECT d.topic_name FROM pubsub_outbox_due AS d WHERE d.dead_at IS NOT NULL
            ORDER BY d.topic_name LIMIT 1)) AS topic_name
  UNION ALL
  SELECT least(
           (SELECT d.topic_name FROM pubsub_outbox_due AS d WHERE d.ordering_key IS NULL AND d.dead_at IS NULL
              AND d.claim_token IS NULL AND d.topic_name > t.topic_name ORDER BY d.topic_name LIMIT 1),
           (SELECT d.topic_name FROM pubsub_outbox_due AS d WHERE d.ordering_key IS NOT NULL
              AND d.topic_name > t.topic_name ORDER BY d.topic_name LIMIT 1),
           (SELECT d.topic_name FROM pubsub_outbox_due AS d WHERE d.claim_token IS NOT NULL
              AND d.topic_name > t.topic_name ORDER BY d.topic_name LIMIT 1),
           (SELECT d.topic_name FROM pubsub_outbox_due AS d WHERE d.dead_at IS NOT NULL
              AND d.topic_name > t.topic_name ORDER BY d.topic_name LIMIT 1))
  FROM topic AS t
  WHERE t.topic_name IS NOT NULL
)
SELECT t.topic_name,
       least(unkeyed.n + keyed.n + lapsed.n, 100000) AS due,
       claimed.n AS claimed,
       least(unkeyed_waiting.n + keyed_waiting.n, 100000) AS waiting,
       dead.n AS dead,
       now() - least(unkeyed.oldest, keyed.oldest, lapsed.oldest) AS oldest_due_age
FROM topic AS t
-- Not claimed, without an ordering key and with one.
CROSS JOIN LATERAL (
  SELECT count(*) AS n, min(counted.next_retry_at) AS oldest
  FROM (SELECT d.next_retry_at FROM pubsub_outbox_due AS d
        WHERE d.topic_name = t.topic_name AND d.ordering_key IS NULL AND d.dead_at IS NULL AND d.claim_token IS NULL
          AND d.next_retry_at <= now()
        ORDER BY d.next_retry_at LIMIT 100000) AS counted) AS unkeyed
CROSS JOIN LATERAL (
  SELECT count(*) AS n
  FROM (SELECT FROM pubsub_outbox_due AS d
        WHERE d.topic_name = t.topic_name AND d.ordering_key IS NULL AND d.dead_at IS NULL AND d.claim_token IS NULL
          AND d.next_retry_at > now()
        ORDER BY d.next_retry_at LIMIT 100000) AS counted) AS unkeyed_waiting
CROSS JOIN LATERAL (
  SELECT count(*) AS n, min(counted.next_retry_at) AS oldest
  FROM (SELECT d.next_retry_at FROM pubsub_outbox_due AS d
        WHERE d.topic_name = t.topic_name AND d.ordering_key IS NOT NULL AND d.dead_at IS NULL AND d.claim_token IS NULL
          AND d.next_retry_at <= now()
        ORDER BY d.next_retry_at LIMIT 100000) AS counted) AS keyed
CROSS JOIN LATERAL (
  SELECT count(*) AS n
  FROM (SELECT FROM pubsub_outbox_due AS d
        WHERE d.topic_name = t.topic_name AND d.ordering_key IS NOT NULL AND d.dead_at IS NULL AND d.claim_token IS NULL
          AND d.next_retry_at > now()
        ORDER BY d.next_retry_at LIMIT 100000) AS counted) AS keyed_waiting
-- Claimed, with either: the lease is over, or not yet.
CROSS JOIN LATERAL (
  SELECT count(*) AS n, min(counted.next_retry_at) AS oldest
  FROM (SELECT d.next_retry_at FROM pubsub_outbox_due AS d
        WHERE d.topic_name = t.topic_name AND d.claim_token IS NOT NULL AND d.next_retry_at <= now()
        ORDER BY d.next_retry_at LIMIT 100000) AS counted) AS lapsed
CROSS JOIN LATERAL (
  SELECT count(*) AS n
  FROM (SELECT FROM pubsub_outbox_due AS d
        WHERE d.topic_name = t.topic_name AND d.claim_token IS NOT NULL AND d.next_retry_at > now()
        ORDER BY d.next_retry_at LIMIT 100000) AS counted) AS claimed
CROSS JOIN LATERAL (
  SELECT count(*) AS n
  FROM (SELECT FROM pubsub_outbox_due AS d
        WHERE d.topic_name = t.topic_name AND d.dead_at IS NOT NULL
        ORDER BY d.dead_at LIMIT 100000) AS counted) AS dead
WHERE t.topic_name IS NOT NULL;

COMMENT ON VIEW pubsub_outbox_backlog IS
  'What is queued, per topic, over all topics: so events of a topic that no dispatcher serves are seen here. Each figure stops at 100,000, which then means that many or more. Rows with an ordering key count as due by their time, also while an earlier row of their key holds them back.';
COMMENT ON COLUMN pubsub_outbox_backlog.oldest_due_age IS
  'For how long the oldest due row could have been claimed; NULL when none is due. Growing means that nobody dispatches the topic, or that it is blocked.';

-- Outbox: dead letters ---------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox_dead(
  topic      text DEFAULT NULL,
  error_like text DEFAULT NULL,
  older_than interval DEFAULT NULL,
  max_rows   int DEFAULT 100)
RETURNS TABLE (
  id            uuid,
  topic_name    text,
  ordering_key  text,
  blocked       bigint,
  dead_at       timestamptz,
  attempts      int,
  last_error    text,
  created_at    timestamptz,
  payload_bytes int,
  attributes    jsonb)
LANGUAGE sql
STABLE
SET search_path FROM CURRENT
AS $$
  SELECT o.id, d.topic_name, d.ordering_key, coalesce(held.n, 0), d.dead_at, d.attempts, d.last_error, o.created_at,
         d.payload_bytes, o.attributes
  FROM (
    SELECT f.*
    FROM pubsub_outbox_due AS f
    WHERE f.dead_at IS NOT NULL
      AND (outbox_dead.topic IS NULL OR f.topic_name = outbox_dead.topic)
      AND (outbox_dead.older_than IS NULL OR f.dead_at < now() - outbox_dead.older_than)
      AND twinbox_error_matches(f.last_error, outbox_dead.error_like)
    ORDER BY f.dead_at, f.seq
    LIMIT outbox_dead.max_rows) AS d
  JOIN pubsub_outbox AS o ON o.seq = d.seq
  LEFT JOIN LATERAL (
    SELECT count(*) AS n
    FROM (SELECT FROM pubsub_outbox_due AS b
          WHERE b.topic_name = d.topic_name AND b.ordering_key = d.ordering_key AND b.seq > d.seq
          LIMIT 1000) AS counted) AS held ON d.ordering_key IS NOT NULL
  ORDER BY d.dead_at, d.seq
$$;

COMMENT ON FUNCTION outbox_dead(text, text, interval, int) IS
  'Dead events, those that died first first. topic: NULL for all. error_like: text that last_error contains (case ignored, % and _ are wildcards). older_than: died longer ago than that. blocked: events behind it under the same ordering key, which wait until it is replayed or discarded; counted up to 1,000. Changes nothing.';

CREATE FUNCTION outbox_states(ids uuid[])
RETURNS TABLE (id uuid, state text)
LANGUAGE sql
STABLE
SET search_path FROM CURRENT
AS $$
  SELECT i.id, coalesce(s.state, 'unknown')
  FROM (SELECT DISTINCT u.id FROM unnest(outbox_states.ids) AS u (id) WHERE u.id IS NOT NULL) AS i
  LEFT JOIN LATERAL (SELECT v.state FROM pubsub_outbox_status AS v WHERE v.id = i.id) AS s ON true
$$;

COMMENT ON FUNCTION outbox_states(uuid[]) IS
  'The state of each event of a list, as in pubsub_outbox_status; unknown when there is no such event.';

CREATE FUNCTION outbox_topic_of(ids uuid[])
RETURNS text
LANGUAGE sql
STABLE
SET search_path FROM CURRENT
AS $$
  SELECT CASE WHEN count(DISTINCT o.topic_name) = 1 THEN min(o.topic_name) END
  FROM pubsub_outbox AS o
  WHERE o.id = ANY (ids)
$$;

COMMENT ON FUNCTION outbox_topic_of(uuid[]) IS
  'The one topic of these events; NULL when they have several. For twinbox_audit.';

CREATE FUNCTION outbox_refuse_ids(action text, ids uuid[], allowed text[], remedy text)
RETURNS void
LANGUAGE plpgsql
STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
  number bigint;
  named  text;
BEGIN
  IF ids IS NULL OR cardinality(array_remove(ids, NULL)) = 0 THEN
    RAISE EXCEPTION '%: no ids given', action USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT count(*), string_agg(format('%s is %s', s.id, s.state), ', ' ORDER BY s.id) FILTER (WHERE s.place <= 5)
  INTO number, named
  FROM (SELECT v.id, v.state, row_number() OVER (ORDER BY v.id) AS place
        FROM outbox_states(ids) AS v
        WHERE v.state <> ALL (allowed)) AS s;
  IF number > 0 THEN
    RAISE EXCEPTION '%: nothing was done, since of the ids given % cannot be used: %', action, number,
      named || CASE WHEN number > 5 THEN ', ...' ELSE '' END
      USING ERRCODE = 'no_data_found', HINT = remedy;
  END IF;
END
$$;

COMMENT ON FUNCTION outbox_refuse_ids(text, uuid[], text[], text) IS
  'Raises when one of the events is in none of the allowed states, naming the first five with their states.';

CREATE FUNCTION outbox_replay_seqs(seqs bigint[], base timestamptz, per_second int)
RETURNS TABLE (replayed bigint, last_due_at timestamptz)
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
  WITH locked AS MATERIALIZED (
    SELECT d.seq
    FROM pubsub_outbox_due AS d
    WHERE d.seq = ANY (seqs)
      AND d.dead_at IS NOT NULL
    -- In the order in which everybody locks these rows.
    ORDER BY d.seq
    FOR UPDATE
  ),
  spread AS (
    SELECT l.seq, base + make_interval(secs => (row_number() OVER (ORDER BY l.seq) - 1) / CAST(per_second AS double precision)) AS due_at
    FROM locked AS l
  ),
  revived AS (
    UPDATE pubsub_outbox_due AS d
    SET dead_at = NULL,
        attempts = 0,
        crashes = 0,
        solo = false,
        next_retry_at = s.due_at
    FROM spread AS s
    WHERE d.seq = s.seq
    RETURNING d.next_retry_at
  )
  SELECT count(*), max(r.next_retry_at)
  FROM revived AS r
$$;

COMMENT ON FUNCTION outbox_replay_seqs(bigint[], timestamptz, int) IS
  'Makes dead rows due again, one after the other at a rate, in the order of seq. Called by outbox_replay.';

CREATE FUNCTION outbox_replay(
  topic      text,
  reason     text DEFAULT NULL,
  error_like text DEFAULT NULL,
  older_than interval DEFAULT NULL,
  max_rows   int DEFAULT 100000,
  per_second int DEFAULT 500,
  not_before timestamptz DEFAULT NULL,
  who        text DEFAULT NULL)
RETURNS TABLE (replayed bigint, more boolean, last_due_at timestamptz)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
  chosen bigint[];
BEGIN
  PERFORM twinbox_check_repair('outbox_replay', reason, max_rows, per_second);
  chosen := ARRAY(
    SELECT d.seq
    FROM pubsub_outbox_due AS d
    WHERE d.topic_name = topic
      AND d.dead_at IS NOT NULL
      AND (older_than IS NULL OR d.dead_at < now() - older_than)
      AND twinbox_error_matches(d.last_error, error_like)
    ORDER BY d.dead_at, d.seq
    LIMIT max_rows);
  SELECT r.replayed, r.last_due_at
  INTO replayed, last_due_at
  FROM outbox_replay_seqs(chosen, greatest(clock_timestamp(), not_before), per_second) AS r;
  IF replayed = 0 THEN
    RAISE EXCEPTION 'outbox_replay: topic % has no dead event that matches', coalesce(topic, 'NULL')
      USING ERRCODE = 'no_data_found', HINT = 'outbox_dead(), by JMX listDead, lists the dead events.';
  END IF;
  more := EXISTS (
    SELECT FROM pubsub_outbox_due AS d
    WHERE d.topic_name = topic
      AND d.dead_at IS NOT NULL
      AND (older_than IS NULL OR d.dead_at < now() - older_than)
      AND twinbox_error_matches(d.last_error, error_like));
  PERFORM twinbox_audit_add(who, 'outbox_replay', topic, NULL, reason, replayed,
    jsonb_build_object('error_like', error_like, 'older_than', older_than, 'max_rows', max_rows, 'per_second', per_second,
                       'last_due_at', last_due_at));
  RETURN NEXT;
END
$$;

COMMENT ON FUNCTION outbox_replay(text, text, text, interval, int, int, timestamptz, text) IS
  'Queues a topic''s dead events that match (filters as in outbox_dead) again, with attempts 0 and last_error kept, those that died first first, at most max_rows. They become due one after the other, per_second of them each second from now or not_before on, so that new events are sent between them. Returns how many, whether more match, and when the last one is due: to replay more at the same rate, call again with not_before => last_due_at until more is false. Errors: no reason; no match.';

CREATE FUNCTION outbox_replay_ids(
  ids        uuid[],
  reason     text DEFAULT NULL,
  per_second int DEFAULT 500,
  who        text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
  number bigint;
BEGIN
  PERFORM twinbox_check_repair('outbox_replay_ids', reason, 1, per_second);
  PERFORM outbox_refuse_ids('outbox_replay_ids', ids, ARRAY['dead'],
    'Only dead events are replayed. due, claimed and waiting ones go by themselves; published and discarded ones: outbox_republish_ids.');
  SELECT r.replayed
  INTO number
  FROM outbox_replay_seqs(ARRAY(SELECT o.seq FROM pubsub_outbox AS o WHERE o.id = ANY (ids)), clock_timestamp(), per_second) AS r;
  PERFORM twinbox_audit_add(who, 'outbox_replay_ids', outbox_topic_of(ids), NULL, reason, number,
    jsonb_build_object('ids', to_jsonb(ids[1:100]), 'given', cardinality(ids)));
  RETURN number;
END
$$;

COMMENT ON FUNCTION outbox_replay_ids(uuid[], text, int, text) IS
  'Queues these dead events again, as outbox_replay does, and returns how many. All or nothing. Errors: no reason; no ids; an id that is unknown or not dead, named with its state.';

CREATE FUNCTION outbox_discard_seqs(seqs bigint[], only_dead boolean, reason text, who text)
RETURNS bigint
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
  WITH locked AS MATERIALIZED (
    SELECT d.seq
    FROM pubsub_outbox_due AS d
    WHERE d.seq = ANY (seqs)
      AND CASE WHEN only_dead THEN d.dead_at IS NOT NULL
               ELSE d.claim_token IS NULL OR d.next_retry_at <= now() END
    ORDER BY d.seq
    FOR UPDATE
  ),
  removed AS (
    DELETE FROM pubsub_outbox_due AS d
    USING locked AS l
    WHERE d.seq = l.seq
    RETURNING d.seq
  ),
  remembered AS (
    INSERT INTO pubsub_outbox_discarded (id, topic_name, discarded_at, reason, who, payload_hash)
    SELECT o.id, o.topic_name, clock_timestamp(), btrim($3),
           twinbox_who($4),
           o.payload_hash
    FROM removed AS r
    JOIN pubsub_outbox AS o ON o.seq = r.seq
    ON CONFLICT ON CONSTRAINT pubsub_outbox_discarded_pkey
    DO UPDATE SET discarded_at = excluded.discarded_at, reason = excluded.reason, who = excluded.who
    RETURNING id
  )
  SELECT count(*)
  FROM remembered
$$;

COMMENT ON FUNCTION outbox_discard_seqs(bigint[], boolean, text, text) IS
  'Takes rows out of the queue and remembers their identities as discarded. Called by outbox_discard.';

CREATE FUNCTION outbox_discard(
  topic      text,
  reason     text DEFAULT NULL,
  error_like text DEFAULT NULL,
  older_than interval DEFAULT NULL,
  max_rows   int DEFAULT 1000,
  who        text DEFAULT NULL)
RETURNS TABLE (discarded bigint, more boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
  PERFORM twinbox_check_repair('outbox_discard', reason, max_rows);
  discarded := outbox_discard_seqs(
    ARRAY(
      SELECT d.seq
      FROM pubsub_outbox_due AS d
      WHERE d.topic_name = topic
        AND d.dead_at IS NOT NULL
        AND (older_than IS NULL OR d.dead_at < now() - older_than)
        AND twinbox_error_matches(d.last_error, error_like)
      ORDER BY d.dead_at, d.seq
      LIMIT max_rows),
    true, reason, who);
  IF discarded = 0 THEN
    RAISE EXCEPTION 'outbox_discard: topic % has no dead event that matches', coalesce(topic, 'NULL')
      USING ERRCODE = 'no_data_found', HINT = 'outbox_dead(), by JMX listDead, lists the dead events.';
  END IF;
  more := EXISTS (
    SELECT FROM pubsub_outbox_due AS d
    WHERE d.topic_name = topic
      AND d.dead_at IS NOT NULL
      AND (older_than IS NULL OR d.dead_at < now() - older_than)
      AND twinbox_error_matches(d.last_error, error_like));
  PERFORM twinbox_audit_add(who, 'outbox_discard', topic, NULL, reason, discarded,
    jsonb_build_object('error_like', error_like, 'older_than', older_than, 'max_rows', max_rows));
  RETURN NEXT;
END
$$;

COMMENT ON FUNCTION outbox_discard(text, text, text, interval, int, text) IS
  'Discards a topic''s dead events that match (filters as in outbox_dead), at most max_rows: they are never sent, are not queued when they are read or put again, and no longer hold back their ordering keys. Returns how many and whether more match. Payloads stay until retention; until then outbox_republish_ids queues them after all. Errors: no reason; no match.';

CREATE FUNCTION outbox_discard_ids(
  ids    uuid[],
  reason text DEFAULT NULL,
  who    text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
  number bigint;
BEGIN
  PERFORM twinbox_check_repair('outbox_discard_ids', reason);
  PERFORM outbox_refuse_ids('outbox_discard_ids', ids, ARRAY['dead', 'waiting', 'due'],
    'A claimed event is being sent: try again when it waits or is dead. A published one cannot be called back.');
  number := outbox_discard_seqs(ARRAY(SELECT o.seq FROM pubsub_outbox AS o WHERE o.id = ANY (ids)), false, reason, who);
  IF number < (SELECT count(DISTINCT u.id) FROM unnest(ids) AS u (id)) THEN
    RAISE EXCEPTION 'outbox_discard_ids: nothing was done, since one of the events was claimed meanwhile'
      USING ERRCODE = 'object_in_use', HINT = 'Try again in a moment.';
  END IF;
  PERFORM twinbox_audit_add(who, 'outbox_discard_ids', outbox_topic_of(ids), NULL, reason, number,
    jsonb_build_object('ids', to_jsonb(ids[1:100]), 'given', cardinality(ids)));
  RETURN number;
END
$$;

COMMENT ON FUNCTION outbox_discard_ids(uuid[], text, text) IS
  'Discards these events, as outbox_discard does, and returns how many; also events that are due or waiting, but none that a pod holds. All or nothing. Errors: no reason; no ids; an id that is unknown, claimed, published or discarded, named with its state.';

-- Outbox: claims of a pod ---------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox_release(
  topic  text,
  pod    text,
  reason text DEFAULT NULL,
  who    text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
  number bigint;
BEGIN
  PERFORM twinbox_check_repair('outbox_release', reason);
  IF pod IS NULL OR btrim(pod) = '' THEN
    RAISE EXCEPTION 'outbox_release: pod is missing' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Give a name that stands in pubsub_outbox_due.lock_id.';
  END IF;
  -- Without a token the next claim does not suspect the events of having ended the pod.
  UPDATE pubsub_outbox_due AS d
  SET next_retry_at = clock_timestamp(), lock_id = NULL, claim_token = NULL, locked_at = NULL, solo = false
  WHERE d.topic_name = topic
    AND d.lock_id = pod
    AND d.dead_at IS NULL;
  GET DIAGNOSTICS number = ROW_COUNT;
  IF number = 0 THEN
    RAISE EXCEPTION 'outbox_release: pod % holds no event of topic %', pod, coalesce(topic, 'NULL')
      USING ERRCODE = 'no_data_found', HINT = 'pubsub_outbox_status.lock_id shows who holds what.';
  END IF;
  PERFORM twinbox_audit_add(who, 'outbox_release', topic, NULL, reason, number, jsonb_build_object('pod', pod));
  RETURN number;
END
$$;

COMMENT ON FUNCTION outbox_release(text, text, text, text) IS
  'Takes a pod''s claims on a topic away, so that its events are due at once, not when the lease ends. What the pod is just publishing, if it lives, is published twice; consumers absorb that. Returns how many. Errors: no reason; no pod; the pod holds nothing.';

-- Outbox: published events again -------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox_queue_again(ids uuid[], base timestamptz, per_second int)
RETURNS TABLE (queued bigint, already_queued bigint, without_payload bigint, last_due_at timestamptz)
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
  -- FOR KEY SHARE: retention deletes no payload of these rows before they stand in the queue.
  WITH kept AS MATERIALIZED (
    SELECT o.seq, o.id, o.topic_name, o.ordering_key, octet_length(o.payload) AS payload_bytes
    FROM pubsub_outbox AS o
    WHERE o.id = ANY (ids)
    ORDER BY o.seq
    FOR KEY SHARE
  ),
  spread AS (
    SELECT k.*, base + make_interval(secs => (row_number() OVER (ORDER BY k.seq) - 1) / CAST(per_second AS double precision)) AS due_at
    FROM kept AS k
    WHERE NOT EXISTS (SELECT FROM pubsub_outbox_due AS d WHERE d.seq = k.seq)
  ),
  queued AS (
    INSERT INTO pubsub_outbox_due (seq, topic_name, ordering_key, payload_bytes, next_retry_at)
    SELECT s.seq, s.topic_name, s.ordering_key, s.payload_bytes, s.due_at
    FROM spread AS s
    ORDER BY s.seq
    ON CONFLICT ON CONSTRAINT pubsub_outbox_due_pkey DO NOTHING
    RETURNING seq, next_retry_at
  ),
  undiscarded AS (
    DELETE FROM pubsub_outbox_discarded AS x
    USING kept AS k, queued AS q
    WHERE k.seq = q.seq
      AND x.id = k.id
  )
  SELECT (SELECT count(*) FROM queued),
         (SELECT count(*) FROM kept) - (SELECT count(*) FROM queued),
         (SELECT count(DISTINCT u.id) FROM unnest(ids) AS u (id)) - (SELECT count(*) FROM kept),
         (SELECT max(q.next_retry_at) FROM queued AS q)
$$;

COMMENT ON FUNCTION outbox_queue_again(uuid[], timestamptz, int) IS
  'Queues events again whose payload is kept and that are not queued, in the order of seq. Called by outbox_republish.';

CREATE FUNCTION outbox_republish(
  topic           text,
  published_from  timestamptz,
  published_until timestamptz,
  reason          text DEFAULT NULL,
  max_rows        int DEFAULT 100000,
  per_second      int DEFAULT 500,
  not_before      timestamptz DEFAULT NULL,
  who             text DEFAULT NULL)
RETURNS TABLE (
  queued bigint, already_queued bigint, without_payload bigint, next_from timestamptz, last_due_at timestamptz)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
  cutoff timestamptz;
BEGIN
  PERFORM twinbox_check_repair('outbox_republish', reason, max_rows, per_second);
  IF published_from IS NULL OR published_until IS NULL OR published_from >= published_until THEN
    RAISE EXCEPTION 'outbox_republish: from % until % is no span of time', coalesce(CAST(published_from AS text), 'NULL'),
      coalesce(CAST(published_until AS text), 'NULL') USING ERRCODE = 'invalid_parameter_value';
  END IF;
  -- A claim's events have one completed_at, and a call takes all of them: a key's events of one claim are never split.
  SELECT max(b.completed_at)
  INTO cutoff
  FROM (SELECT p.completed_at
        FROM pubsub_outbox_published AS p
        WHERE p.topic_name = topic
          AND p.completed_at >= published_from
          AND p.completed_at < published_until
        ORDER BY p.completed_at
        LIMIT max_rows) AS b;
  IF cutoff IS NULL THEN
    RAISE EXCEPTION 'outbox_republish: no event of topic % was published from % until %', coalesce(topic, 'NULL'),
      published_from, published_until
      USING ERRCODE = 'no_data_found', HINT = 'The time is completed_at in pubsub_outbox_status; an event published twice has its last one.';
  END IF;
  SELECT q.queued, q.already_queued, q.without_payload, q.last_due_at
  INTO queued, already_queued, without_payload, last_due_at
  FROM outbox_queue_again(
    ARRAY(
      SELECT p.id
      FROM pubsub_outbox_published AS p
      WHERE p.topic_name = topic
        AND p.completed_at >= published_from
        AND p.completed_at <= cutoff
        AND NOT EXISTS (SELECT FROM pubsub_outbox_discarded AS x WHERE x.id = p.id)),
    greatest(clock_timestamp(), not_before), per_second) AS q;
  SELECT min(p.completed_at)
  INTO next_from
  FROM pubsub_outbox_published AS p
  WHERE p.topic_name = topic
    AND p.completed_at > cutoff
    AND p.completed_at < published_until;
  PERFORM twinbox_audit_add(who, 'outbox_republish', topic, NULL, reason, queued,
    jsonb_build_object('from', published_from, 'until', published_until, 'max_rows', max_rows, 'per_second', per_second,
                       'already_queued', already_queued, 'without_payload', without_payload, 'next_from', next_from,
                       'last_due_at', last_due_at));
  RETURN NEXT;
END
$$;

COMMENT ON FUNCTION outbox_republish(text, timestamptz, timestamptz, text, int, int, timestamptz, text) IS
  'Queues a topic''s events that were published at or after published_from and before published_until again, under their ids, those published first first, at most about max_rows; the inbox absorbs those that were applied. They become due in the order of seq, per_second of them each second from now or not_before on. Returns how many were queued, were queued already, and had no payload any more (retention), then next_from: NULL when the span is done, else call again with published_from => next_from, not_before => last_due_at. Discarded events stay discarded. Errors: no reason; no span; nothing published in it.';

CREATE FUNCTION outbox_republish_ids(
  ids        uuid[],
  reason     text DEFAULT NULL,
  per_second int DEFAULT 500,
  who        text DEFAULT NULL)
RETURNS TABLE (queued bigint, already_queued bigint, without_payload bigint)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
  PERFORM twinbox_check_repair('outbox_republish_ids', reason, 1, per_second);
  PERFORM outbox_refuse_ids('outbox_republish_ids', ids,
    ARRAY['published', 'discarded', 'unqueued', 'due', 'claimed', 'waiting'],
    'A dead event is replayed (outbox_replay_ids). An unknown one was never in this outbox: let produce read it, or put it.');
  SELECT q.queued, q.already_queued, q.without_payload
  INTO queued, already_queued, without_payload
  FROM outbox_queue_again(ids, clock_timestamp(), per_second) AS q;
  PERFORM twinbox_audit_add(who, 'outbox_republish_ids', outbox_topic_of(ids), NULL, reason, queued,
    jsonb_build_object('ids', to_jsonb(ids[1:100]), 'given', cardinality(ids), 'already_queued', already_queued,
                       'without_payload', without_payload));
  RETURN NEXT;
END
$$;

COMMENT ON FUNCTION outbox_republish_ids(uuid[], text, int, text) IS
  'Queues these published events again under their ids, and discarded ones after all. Returns how many were queued, were queued already, and had no payload any more. Errors: no reason; no ids; an id that is unknown or dead.';

-- Inbox: dead letters ------------------------------------------------------------------------------------------------------------

ALTER TABLE transactional_inbox_dead_letter
  ADD COLUMN closed_at           timestamptz,
  ADD COLUMN closed_as           text,
  ADD COLUMN closed_by           text,
  ADD COLUMN closed_reason       text,
  ADD COLUMN replay_requested_at timestamptz,
  ADD COLUMN replay_requested_by text,
  ADD COLUMN replay_next_at      timestamptz,
  ADD COLUMN replay_claims       int NOT NULL DEFAULT 0,
  ADD COLUMN replay_lock_id      text,
  ADD COLUMN replay_token        uuid,
  ADD CONSTRAINT transactional_inbox_dead_letter_closed_whole
    CHECK ((closed_at IS NULL) = (closed_as IS NULL) AND closed_as IN ('replayed', 'already applied', 'discarded')),
  ADD CONSTRAINT transactional_inbox_dead_letter_closed_not_queued
    CHECK (closed_at IS NULL OR replay_requested_at IS NULL),
  ADD CONSTRAINT transactional_inbox_dead_letter_queued_whole
    CHECK ((replay_requested_at IS NULL) = (replay_next_at IS NULL));

COMMENT ON TABLE transactional_inbox IS
  'One row per message that took effect, written in the transaction of the effect, and per dead letter that was discarded (closed_as = ''discarded''). Deleting a row lets its message take effect again.';
COMMENT ON COLUMN transactional_inbox_dead_letter.closed_as IS
  'replayed: its replay took effect. already applied: a twin had taken effect. discarded: it never takes effect, also when it is delivered again. NULL: open.';
COMMENT ON COLUMN transactional_inbox_dead_letter.replay_next_at IS
  'When the letter whose replay was asked for may be claimed; a claim sets it to the end of its lease.';
COMMENT ON COLUMN transactional_inbox_dead_letter.replay_claims IS
  'Claims of this replay that ended without an outcome; after three of them the message is taken to kill its process.';
COMMENT ON COLUMN transactional_inbox_dead_letter.replay_token IS
  'New with every claim. The replay''s transaction and its outcome carry it: a pod that lost its lease changes nothing.';

-- The queue of replays; empty most of the time.
CREATE INDEX transactional_inbox_dead_letter_replays
  ON transactional_inbox_dead_letter (consumer, replay_next_at)
  WHERE replay_requested_at IS NOT NULL;

CREATE INDEX transactional_inbox_dead_letter_open
  ON transactional_inbox_dead_letter (consumer, last_dead_at)
  WHERE closed_at IS NULL;

CREATE FUNCTION inbox_dead(
  consumer   text DEFAULT NULL,
  error_like text DEFAULT NULL,
  older_than interval DEFAULT NULL,
  max_rows   int DEFAULT 100)
RETURNS TABLE (
  id                  bigint,
  consumer_name       text,
  idempotency_key     text,
  message_id          text,
  reason              text,
  attempts            int,
  first_dead_at       timestamptz,
  last_dead_at        timestamptz,
  published_at        timestamptz,
  payload_bytes       int,
  attributes          json,
  applied             boolean,
  replay_requested_at timestamptz)
LANGUAGE sql
STABLE
SET search_path FROM CURRENT
AS $$
  SELECT l.id, l.consumer, l.idempotency_key, l.message_id, l.reason, l.attempts, l.first_dead_at, l.last_dead_at,
         l.published_at, octet_length(l.payload), l.attributes,
         EXISTS (SELECT FROM transactional_inbox AS i
                 WHERE i.consumer = l.consumer AND i.idempotency_key = l.idempotency_key),
         l.replay_requested_at
  FROM transactional_inbox_dead_letter AS l
  WHERE l.closed_at IS NULL
    AND (inbox_dead.consumer IS NULL OR l.consumer = inbox_dead.consumer)
    AND (inbox_dead.older_than IS NULL OR l.last_dead_at < now() - inbox_dead.older_than)
    AND twinbox_error_matches(l.reason, inbox_dead.error_like)
  ORDER BY l.last_dead_at, l.id
  LIMIT inbox_dead.max_rows
$$;

COMMENT ON FUNCTION inbox_dead(text, text, interval, int) IS
  'Open dead letters, oldest failure first. consumer: NULL for all. error_like: text that the reason contains (case ignored, % and _ are wildcards). older_than: failed last longer ago than that. applied: a twin has taken effect meanwhile, so a replay only closes it. Changes nothing.';

CREATE FUNCTION inbox_replay(
  consumer   text,
  reason     text DEFAULT NULL,
  error_like text DEFAULT NULL,
  older_than interval DEFAULT NULL,
  max_rows   int DEFAULT 10000,
  who        text DEFAULT NULL)
RETURNS TABLE (requested bigint, more boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
BEGIN
  PERFORM twinbox_check_repair('inbox_replay', reason, max_rows);
  WITH chosen AS MATERIALIZED (
    SELECT l.id
    FROM transactional_inbox_dead_letter AS l
    WHERE l.consumer = consumer
      AND l.closed_at IS NULL
      AND l.replay_requested_at IS NULL
      AND l.idempotency_key IS NOT NULL
      AND (older_than IS NULL OR l.last_dead_at < now() - older_than)
      AND twinbox_error_matches(l.reason, error_like)
    ORDER BY l.last_dead_at, l.id
    LIMIT max_rows
  ),
  asked AS (
    UPDATE transactional_inbox_dead_letter AS l
    SET replay_requested_at = clock_timestamp(),
        replay_requested_by = twinbox_who(who),
        replay_next_at = clock_timestamp(),
        replay_claims = 0
    FROM chosen AS c
    WHERE l.id = c.id
      AND l.closed_at IS NULL
      AND l.replay_requested_at IS NULL
    RETURNING l.id
  )
  SELECT count(*)
  INTO requested
  FROM asked;
  IF requested = 0 THEN
    RAISE EXCEPTION 'inbox_replay: consumer % has no open dead letter with a key that matches', coalesce(consumer, 'NULL')
      USING ERRCODE = 'no_data_found',
            HINT = 'inbox_dead(), by JMX listDead, lists them. Letters without a key need inbox_assign_key first; those whose replay was asked for are left out.';
  END IF;
  more := EXISTS (
    SELECT FROM transactional_inbox_dead_letter AS l
    WHERE l.consumer = consumer
      AND l.closed_at IS NULL
      AND l.replay_requested_at IS NULL
      AND l.idempotency_key IS NOT NULL
      AND (older_than IS NULL OR l.last_dead_at < now() - older_than)
      AND twinbox_error_matches(l.reason, error_like));
  PERFORM twinbox_audit_add(who, 'inbox_replay', NULL, consumer, reason, requested,
    jsonb_build_object('error_like', error_like, 'older_than', older_than, 'max_rows', max_rows));
  RETURN NEXT;
END
$$;

COMMENT ON FUNCTION inbox_replay(text, text, text, interval, int, text) IS
  'Asks for the replay of a consumer''s open dead letters that have a key and match (filters as in inbox_dead), at most max_rows. A pod with the route set consume runs them, one after the other, through the inbox and the handler: the letter is closed in the transaction of the effect, or as already applied; when the handler fails again it stays open with the new reason and is not tried again by itself. Returns how many, and whether more match. Errors: no reason; no match.';

CREATE FUNCTION inbox_refuse_ids(action text, ids bigint[], remedy text, closed_too boolean DEFAULT false)
RETURNS void
LANGUAGE plpgsql
STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
  number bigint;
  named  text;
BEGIN
  IF ids IS NULL OR cardinality(array_remove(ids, NULL)) = 0 THEN
    RAISE EXCEPTION '%: no ids given', action USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT count(*), string_agg(format('%s is %s', s.id, s.state), ', ' ORDER BY s.id) FILTER (WHERE s.place <= 5)
  INTO number, named
  FROM (SELECT i.id, coalesce(l.closed_as, 'unknown') AS state, row_number() OVER (ORDER BY i.id) AS place
        FROM (SELECT DISTINCT u.id FROM unnest(ids) AS u (id) WHERE u.id IS NOT NULL) AS i
        LEFT JOIN transactional_inbox_dead_letter AS l ON l.id = i.id
        WHERE l.id IS NULL
           OR l.closed_as IN ('replayed', 'already applied')
           OR (l.closed_as = 'discarded' AND NOT closed_too)) AS s;
  IF number > 0 THEN
    RAISE EXCEPTION '%: nothing was done, since of the ids given % cannot be used: %', action, number,
      named || CASE WHEN number > 5 THEN ', ...' ELSE '' END
      USING ERRCODE = 'no_data_found', HINT = remedy;
  END IF;
END
$$;

COMMENT ON FUNCTION inbox_refuse_ids(text, bigint[], text, boolean) IS
  'Raises when one of the letters is unknown or closed, naming the first five with what they are closed as.';

CREATE FUNCTION inbox_replay_ids(
  ids    bigint[],
  reason text DEFAULT NULL,
  who    text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
  keyless text;
  number  bigint;
BEGIN
  PERFORM twinbox_check_repair('inbox_replay_ids', reason);
  PERFORM inbox_refuse_ids('inbox_replay_ids', ids, 'inbox_dead(), by JMX listDead, lists the open ones.', true);
  SELECT string_agg(CAST(l.id AS text), ', ' ORDER BY l.id)
  INTO keyless
  FROM transactional_inbox_dead_letter AS l
  WHERE l.id = ANY (ids)
    AND l.idempotency_key IS NULL;
  IF keyless IS NOT NULL THEN
    RAISE EXCEPTION 'inbox_replay_ids: nothing was done, since letters without a key cannot take effect exactly once: %', keyless
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Give each its event''s key with inbox_assign_key, or discard it.';
  END IF;
  -- A discarded letter holds its key, which nothing took effect under.
  WITH opened AS (
    SELECT l.consumer, l.idempotency_key
    FROM transactional_inbox_dead_letter AS l
    WHERE l.id = ANY (ids)
      AND l.closed_as = 'discarded'
    ORDER BY l.id
    FOR UPDATE
  )
  DELETE FROM transactional_inbox AS i
  USING opened AS o
  WHERE i.consumer = o.consumer
    AND i.idempotency_key = o.idempotency_key;
  WITH asked AS (
    UPDATE transactional_inbox_dead_letter AS l
    SET closed_at = NULL,
        closed_as = NULL,
        closed_by = NULL,
        closed_reason = NULL,
        replay_requested_at = clock_timestamp(),
        replay_requested_by = twinbox_who(who),
        replay_next_at = clock_timestamp(),
        replay_claims = 0
    WHERE l.id = ANY (ids)
      AND (l.closed_at IS NULL OR l.closed_as = 'discarded')
      -- One that is asked for already keeps its place and its claim.
      AND l.replay_requested_at IS NULL
    RETURNING l.id
  )
  SELECT count(*)
  INTO number
  FROM asked;
  PERFORM twinbox_audit_add(who, 'inbox_replay_ids', NULL,
    (SELECT CASE WHEN count(DISTINCT l.consumer) = 1 THEN min(l.consumer) END
     FROM transactional_inbox_dead_letter AS l WHERE l.id = ANY (ids)),
    reason, number, jsonb_build_object('ids', to_jsonb(ids[1:100]), 'given', cardinality(ids)));
  RETURN number;
END
$$;

COMMENT ON FUNCTION inbox_replay_ids(bigint[], text, text) IS
  'Asks for the replay of these dead letters, as inbox_replay does, and returns how many; those asked for already are not counted. A discarded letter is opened again. All or nothing. Errors: no reason; no ids; an id that is unknown, took effect or has no key.';

CREATE FUNCTION inbox_discard_ids(
  ids    bigint[],
  reason text DEFAULT NULL,
  who    text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
  number  bigint;
  keyed   bigint;
  taken   bigint;
  applied text;
BEGIN
  PERFORM twinbox_check_repair('inbox_discard_ids', reason);
  PERFORM inbox_refuse_ids('inbox_discard_ids', ids, 'inbox_dead(), by JMX listDead, lists the open ones.');
  -- A replay in its transaction holds the letter: this waits, and then sees what became of it.
  SELECT count(*), count(locked.idempotency_key)
  INTO number, keyed
  FROM (SELECT l.idempotency_key
        FROM transactional_inbox_dead_letter AS l
        WHERE l.id = ANY (ids)
          AND l.closed_at IS NULL
        ORDER BY l.id
        FOR UPDATE) AS locked;
  IF number < (SELECT count(DISTINCT u.id) FROM unnest(ids) AS u (id)) THEN
    RAISE EXCEPTION 'inbox_discard_ids: nothing was done, since one of the letters was closed meanwhile'
      USING ERRCODE = 'object_in_use', HINT = 'inbox_dead(), by JMX listDead, lists the open ones.';
  END IF;
  -- The key is what keeps the message from taking effect; while a twin is being processed, this waits for it.
  WITH took AS (
    INSERT INTO transactional_inbox (consumer, idempotency_key)
    SELECT l.consumer, l.idempotency_key
    FROM transactional_inbox_dead_letter AS l
    WHERE l.id = ANY (ids)
      AND l.idempotency_key IS NOT NULL
    ORDER BY l.consumer, l.idempotency_key
    ON CONFLICT ON CONSTRAINT transactional_inbox_pkey DO NOTHING
    RETURNING 1
  )
  SELECT count(*)
  INTO taken
  FROM took;
  IF taken < keyed THEN
    SELECT string_agg(CAST(l.id AS text), ', ' ORDER BY l.id)
    INTO applied
    FROM transactional_inbox_dead_letter AS l
    JOIN transactional_inbox AS i ON i.consumer = l.consumer AND i.idempotency_key = l.idempotency_key
    WHERE l.id = ANY (ids)
      AND i.created_at < now();
    RAISE EXCEPTION 'inbox_discard_ids: nothing was done, since a twin of a letter has taken effect: %', coalesce(applied, 'just now')
      USING ERRCODE = 'object_in_use', HINT = 'Replay it: that closes it as already applied.';
  END IF;
  UPDATE transactional_inbox_dead_letter AS l
  SET closed_at = clock_timestamp(),
      closed_as = 'discarded',
      closed_by = twinbox_who(who),
      closed_reason = btrim(inbox_discard_ids.reason),
      replay_requested_at = NULL,
      replay_next_at = NULL,
      replay_lock_id = NULL,
      replay_token = NULL
  WHERE l.id = ANY (ids);
  PERFORM twinbox_audit_add(who, 'inbox_discard_ids', NULL,
    (SELECT CASE WHEN count(DISTINCT l.consumer) = 1 THEN min(l.consumer) END
     FROM transactional_inbox_dead_letter AS l WHERE l.id = ANY (ids)),
    reason, number, jsonb_build_object('ids', to_jsonb(ids[1:100]), 'given', cardinality(ids)));
  RETURN number;
END
$$;

COMMENT ON FUNCTION inbox_discard_ids(bigint[], text, text) IS
  'Closes these dead letters as discarded and returns how many. A discarded letter takes its key in the inbox, so its message does not take effect when it is delivered or published again; inbox_replay_ids gives the key back. All or nothing. Errors: no reason; no ids; an id that is unknown or closed; a letter whose twin has taken effect.';

CREATE FUNCTION inbox_assign_key(
  id     bigint,
  key    text,
  reason text DEFAULT NULL,
  who    text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
  letter transactional_inbox_dead_letter;
BEGIN
  PERFORM twinbox_check_repair('inbox_assign_key', reason);
  IF key IS NULL OR btrim(key) = '' OR octet_length(key) > 512 THEN
    RAISE EXCEPTION 'inbox_assign_key: a key is text of 1 to 512 bytes; this one has %', coalesce(octet_length(key), 0)
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  PERFORM inbox_refuse_ids('inbox_assign_key', ARRAY[id], 'inbox_dead(), by JMX listDead, lists the open ones.');
  SELECT *
  INTO letter
  FROM transactional_inbox_dead_letter AS l
  WHERE l.id = inbox_assign_key.id
  FOR UPDATE;
  IF letter.idempotency_key IS NOT NULL THEN
    RAISE EXCEPTION 'inbox_assign_key: letter % has the key % already; another one could make it take effect twice', id, letter.idempotency_key
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  BEGIN
    UPDATE transactional_inbox_dead_letter AS l
    SET idempotency_key = key
    WHERE l.id = letter.id;
  EXCEPTION
    WHEN unique_violation THEN
      RAISE EXCEPTION 'inbox_assign_key: consumer % has another dead letter with the key %', letter.consumer, key
        USING ERRCODE = 'unique_violation', HINT = 'If both are the same event, discard one of them.';
  END;
  PERFORM twinbox_audit_add(who, 'inbox_assign_key', NULL, letter.consumer, reason, 1,
    jsonb_build_object('ids', to_jsonb(ARRAY[id]), 'key', key));
END
$$;

COMMENT ON FUNCTION inbox_assign_key(bigint, text, text, text) IS
  'Gives an open dead letter that had no usable key the key of its event, so that it can be replayed. The same event must get the same key, always: it is what keeps it from taking effect twice. Errors: no reason; no key of 1 to 512 bytes; an id that is unknown, closed or has a key; a key that another letter of the consumer has.';

-- Inbox: the replay's own transaction --------------------------------------------------------------------------------------------

CREATE FUNCTION inbox_replay_begin(id bigint, token uuid)
RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
  PERFORM FROM transactional_inbox_dead_letter AS l
  WHERE l.id = inbox_replay_begin.id
    AND l.replay_token = token
    AND l.closed_at IS NULL
  FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the replay of dead letter % is another pod''s now, or it was closed', id USING ERRCODE = 'object_in_use';
  END IF;
END
$$;

COMMENT ON FUNCTION inbox_replay_begin(bigint, uuid) IS
  'First in the transaction of a replay: locks the letter, so that nobody discards or claims it while its handler runs. Raises when the claim is lost.';

CREATE FUNCTION inbox_replay_end(id bigint, token uuid, duplicate boolean)
RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
  letter transactional_inbox_dead_letter;
BEGIN
  SELECT *
  INTO letter
  FROM transactional_inbox_dead_letter AS l
  WHERE l.id = inbox_replay_end.id
    AND l.replay_token = token
    AND l.closed_at IS NULL
  FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the replay of dead letter % is another pod''s now, or it was closed', id USING ERRCODE = 'object_in_use';
  END IF;
  IF NOT EXISTS (SELECT FROM transactional_inbox AS i
                 WHERE i.consumer = letter.consumer AND i.idempotency_key = letter.idempotency_key) THEN
    RAISE EXCEPTION 'dead letter % did not take its key in the inbox, so it was not applied', id USING ERRCODE = 'object_not_in_prerequisite_state';
  END IF;
  UPDATE transactional_inbox_dead_letter AS l
  SET closed_at = clock_timestamp(),
      closed_as = CASE WHEN coalesce(duplicate, false) THEN 'already applied' ELSE 'replayed' END,
      closed_by = letter.replay_requested_by,
      closed_reason = NULL,
      replay_requested_at = NULL,
      replay_next_at = NULL,
      replay_lock_id = NULL,
      replay_token = NULL
  WHERE l.id = letter.id;
END
$$;

COMMENT ON FUNCTION inbox_replay_end(bigint, uuid, boolean) IS
  'Last in the transaction of a replay: closes the letter together with the effect. Raises, which rolls the effect back, when the claim is lost or the inbox has no key.';
