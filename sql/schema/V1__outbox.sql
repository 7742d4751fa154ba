-- The outbox: events that wait for Pub/Sub, and the identities of those that it has taken.
--
-- Three tables instead of one wide one: the event never changes, its claim state changes all the time, and its
-- identity outlives both. On 5.6 million rows the wide table cost twice as much WAL and its claims did not stay flat
-- (docs/adr/0001-three-outbox-tables.md).

DO $$
BEGIN
  IF current_setting('server_version_num')::int < 140000 THEN
    RAISE EXCEPTION 'Twinbox needs PostgreSQL 14 or newer; this server is %.', current_setting('server_version');
  END IF;
  IF getdatabaseencoding() <> 'UTF8' THEN
    RAISE EXCEPTION 'Twinbox needs a database with encoding UTF8; this one has %. Create it with ENCODING ''UTF8''.',
      getdatabaseencoding();
  END IF;
END
$$;

-- Identity --------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox_event_id(topic text, source text, event_key text)
RETURNS uuid
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
AS $$
-- A function in SQL that reads its hash three times is planned anew at every call, which takes four times as long.
DECLARE
  h bytea := sha256(int4send(octet_length(topic)) || convert_to(topic, 'UTF8')
                 || int4send(octet_length(source)) || convert_to(source, 'UTF8')
                 || int4send(octet_length(event_key)) || convert_to(event_key, 'UTF8'));
BEGIN
  RETURN CAST(encode(set_byte(set_byte(substr(h, 1, 16),
                              6, (get_byte(h, 6) & 15) | 128),
                     8, (get_byte(h, 8) & 63) | 128), 'hex') AS uuid);
END
$$;

COMMENT ON FUNCTION outbox_event_id(text, text, text) IS
  'The id of an event that has a key of its own: a UUIDv8 hashed from the length-prefixed parts. The same event yields the same id, whenever and wherever it is read.';

CREATE FUNCTION outbox_new_id()
RETURNS uuid
LANGUAGE sql
VOLATILE
PARALLEL SAFE
AS $$
  SELECT CAST(encode(set_byte(u, 6, (get_byte(u, 6) & 15) | 112), 'hex') AS uuid)
  FROM (SELECT overlay(uuid_send(gen_random_uuid())
                       PLACING substr(int8send(CAST(extract(EPOCH FROM clock_timestamp()) * 1000 AS bigint)), 3)
                       FROM 1 FOR 6) AS u) AS timed
$$;

COMMENT ON FUNCTION outbox_new_id() IS
  'The id of an event without a key of its own: a UUIDv7. Time-ordered, because random keys make every index insert touch another page.';

-- What Pub/Sub would refuse -----------------------------------------------------------------------------------------

CREATE FUNCTION outbox_topic_refusal(topic text)
RETURNS text
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
AS $$
  SELECT CASE
    WHEN topic ~ '^[A-Za-z][A-Za-z0-9._~+%-]{2,254}$' AND topic NOT LIKE 'goog%' THEN NULL
    ELSE format('topic_name ''%s'' is no Pub/Sub topic''s short name: 3 to 255 letters, digits and - . _ ~ + %%, a letter first and not "goog"',
                left(topic, 300))
  END
$$;

COMMENT ON FUNCTION outbox_topic_refusal(text) IS
  'Why Pub/Sub has no topic of such a name (cloud.google.com/pubsub/docs/pubsub-basics, "Resource names"); NULL when it can have one.';

CREATE FUNCTION outbox_refusal(payload bytea, attributes jsonb, ordering_key text)
RETURNS text
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
AS $$
-- Limits: cloud.google.com/pubsub/quotas, "Resource limits". One attribute of the hundred is ours (outbox_id), and
-- 1,000 bytes of the 10,000,000 are kept for it, the topic's name and the request's own framing.
DECLARE
  attribute record;
  names     int := 0;
  size      bigint;
BEGIN
  -- The plain event, in one question. A NULL payload does not pass it.
  IF attributes = '{}' AND ordering_key IS NULL AND octet_length(payload) <= 9999000 THEN
    RETURN NULL;
  END IF;
  size := octet_length(payload) + coalesce(octet_length(ordering_key), 0);
  IF payload IS NULL THEN
    RETURN 'the payload is NULL; an event without data has an empty payload';
  END IF;
  IF attributes IS NULL OR jsonb_typeof(attributes) <> 'object' THEN
    RETURN 'attributes must be a JSON object of strings, for example {"type": "issued"}';
  END IF;
  IF ordering_key = '' THEN
    RETURN 'the ordering key is empty; an event without an ordering key has NULL';
  END IF;
  IF octet_length(ordering_key) > 1024 THEN
    RETURN format('the ordering key has %s bytes; Pub/Sub allows 1,024', octet_length(ordering_key));
  END IF;
  IF attributes <> '{}' THEN
    FOR attribute IN SELECT key, value, value #>> '{}' AS text FROM jsonb_each(attributes) LOOP
      names := names + 1;
      size := size + octet_length(attribute.key) + octet_length(attribute.text) + 12;
      IF jsonb_typeof(attribute.value) <> 'string' THEN
        RETURN format('attribute "%s" is a JSON %s; Pub/Sub allows strings only',
                      left(attribute.key, 80), jsonb_typeof(attribute.value));
      END IF;
      IF attribute.key = '' THEN
        RETURN 'an attribute has an empty key; Pub/Sub allows 1 to 256 bytes';
      END IF;
      IF octet_length(attribute.key) > 256 THEN
        RETURN format('attribute key "%s..." has %s bytes; Pub/Sub allows 256',
                      left(attribute.key, 40), octet_length(attribute.key));
      END IF;
      IF attribute.key LIKE 'goog%' THEN
        RETURN format('attribute "%s" starts with "goog", which Pub/Sub keeps for itself', left(attribute.key, 80));
      END IF;
      IF attribute.key = 'outbox_id' THEN
        RETURN 'attribute "outbox_id" is set by Twinbox: it is the event''s identity';
      END IF;
      IF octet_length(attribute.text) > 1024 THEN
        RETURN format('the value of attribute "%s" has %s bytes; Pub/Sub allows 1,024',
                      left(attribute.key, 80), octet_length(attribute.text));
      END IF;
    END LOOP;
    IF names > 99 THEN
      RETURN format('%s attributes; Pub/Sub allows 100, one of which is outbox_id', names);
    END IF;
  END IF;
  IF size > 9999000 THEN
    RETURN format('the message has %s bytes (payload, attributes and ordering key); Pub/Sub allows 10,000,000 with outbox_id and topic name, so 9,999,000 here', size);
  END IF;
  RETURN NULL;
END
$$;

COMMENT ON FUNCTION outbox_refusal(bytea, jsonb, text) IS
  'Why Pub/Sub would refuse such a message, naming the limit and the figure; NULL when it would take it.';

CREATE FUNCTION outbox_accept(refusal text)
RETURNS boolean
LANGUAGE plpgsql
IMMUTABLE
PARALLEL SAFE
AS $$
-- Raises instead of returning false: a CHECK that fails names only itself, and the caller needs the limit. Takes the
-- refusal instead of asking for it: a CHECK remembers which functions it means, a function body looks them up by the
-- search path, which is empty while pg_restore loads the table.
BEGIN
  IF refusal IS NOT NULL THEN
    RAISE EXCEPTION 'Pub/Sub would refuse this event: %', refusal USING ERRCODE = 'check_violation';
  END IF;
  RETURN true;
END
$$;

CREATE FUNCTION outbox_attributes_fault(attributes text)
RETURNS text
LANGUAGE plpgsql
IMMUTABLE
STRICT
PARALLEL SAFE
AS $$
-- PostgreSQL takes less for JSON than other readers do: no escaped NUL, no half of a surrogate pair, no 1e999999.
BEGIN
  PERFORM CAST(attributes AS jsonb);
  RETURN NULL;
EXCEPTION
  WHEN data_exception OR program_limit_exceeded THEN
    RETURN 'attributes are no JSON that PostgreSQL can store: ' || sqlerrm;
END
$$;

COMMENT ON FUNCTION outbox_attributes_fault(text) IS
  'Why a text cannot be an event''s attributes, so that one such row does not fail its whole chunk; NULL when it is JSON.';

-- The event, append-only --------------------------------------------------------------------------------------------

CREATE TABLE pubsub_outbox (
  seq          bigint GENERATED ALWAYS AS IDENTITY,
  id           uuid NOT NULL DEFAULT outbox_new_id(),
  topic_name   text COLLATE "C" NOT NULL,
  source       text NOT NULL DEFAULT 'service',
  payload      bytea NOT NULL,
  attributes   jsonb NOT NULL DEFAULT '{}',
  ordering_key text,
  created_at   timestamptz NOT NULL DEFAULT now(),
  -- Half of a SHA-256: it tells a changed payload from the same one, it is no seal.
  payload_hash bytea NOT NULL GENERATED ALWAYS AS (substr(sha256(payload), 1, 16)) STORED,
  CONSTRAINT pubsub_outbox_pkey PRIMARY KEY (seq),
  CONSTRAINT pubsub_outbox_id_unique UNIQUE (id),
  CONSTRAINT pubsub_outbox_topic_name_valid CHECK (outbox_topic_refusal(topic_name) IS NULL),
  CONSTRAINT pubsub_outbox_source_valid CHECK (octet_length(source) BETWEEN 1 AND 255),
  CONSTRAINT pubsub_outbox_within_pubsub_limits CHECK (outbox_accept(outbox_refusal(payload, attributes, ordering_key)))
) WITH (
  -- Never updated, and deleted only by retention: vacuum by share of the table would come after hours of it.
  autovacuum_vacuum_scale_factor = 0.02,
  -- Inserts alone make no dead rows, but the visibility map must keep up for index-only scans.
  autovacuum_vacuum_insert_scale_factor = 0.05
);

COMMENT ON TABLE pubsub_outbox IS
  'Events, append-only. A plain INSERT queues the event for Pub/Sub in the same transaction. id is the idempotency key, published as the attribute outbox_id.';

-- For retention, which otherwise reads the whole table to find that nothing is old enough. Rows come in this order, so
-- an insert touches the last page only.
CREATE INDEX pubsub_outbox_by_age
  ON pubsub_outbox (created_at);

-- One narrow row per event not yet published --------------------------------------------------------------------------

-- Texts in indexes are compared by their bytes (COLLATE "C"), here and in the other migrations: the order of a
-- language comes from the C library, changes with its version, and then silently breaks an index built before.
CREATE TABLE pubsub_outbox_due (
  seq           bigint NOT NULL,
  topic_name    text COLLATE "C" NOT NULL,
  ordering_key  text COLLATE "C",
  payload_bytes int NOT NULL,
  next_retry_at timestamptz NOT NULL,
  lock_id       text,
  claim_token   uuid,
  locked_at     timestamptz,
  attempts      int NOT NULL DEFAULT 0,
  claims        int NOT NULL DEFAULT 0,
  solo          boolean NOT NULL DEFAULT false,
  crashes       int NOT NULL DEFAULT 0,
  last_error    text,
  dead_at       timestamptz,
  CONSTRAINT pubsub_outbox_due_pkey PRIMARY KEY (seq),
  CONSTRAINT pubsub_outbox_due_counts_not_negative CHECK (attempts >= 0 AND claims >= 0),
  CONSTRAINT pubsub_outbox_due_claim_whole CHECK ((claim_token IS NULL) = (lock_id IS NULL)),
  CONSTRAINT pubsub_outbox_due_dead_not_claimed CHECK (dead_at IS NULL OR claim_token IS NULL)
) WITH (
  -- Every claim and every completion leaves a dead row here. The table is small when all is well, so a share of it is
  -- a bad measure; 20,000 dead rows are about two seconds at full rate, and vacuum must not pause between pages.
  fillfactor = 70,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0,
  autovacuum_analyze_threshold = 50000
);

COMMENT ON TABLE pubsub_outbox_due IS
  'Claim state of events that Pub/Sub has not taken yet: due, claimed, waiting or dead. A published event has no row here.';
COMMENT ON COLUMN pubsub_outbox_due.payload_bytes IS
  'Size of the payload, so that a claim can bound the memory it takes without reading payloads.';
COMMENT ON COLUMN pubsub_outbox_due.next_retry_at IS
  'When the row may be claimed next. A claim sets it to the end of its lease: a crashed pod''s rows come back by themselves.';
COMMENT ON COLUMN pubsub_outbox_due.claim_token IS
  'New with every claim. Settling statements carry it: a pod that lost its lease changes nothing of the new owner''s.';
COMMENT ON COLUMN pubsub_outbox_due.attempts IS
  'Failures that were this message''s own fault. Trouble of the destination or of the network is not counted.';

COMMENT ON COLUMN pubsub_outbox_due.solo IS
  'Whether the row was claimed alone because the claim before had ended without an outcome.';
COMMENT ON COLUMN pubsub_outbox_due.crashes IS
  'How many claims that the row had to itself have ended without an outcome, one after the other.';

-- next_retry_at changes with every claim, so claims are never HOT here; it was measured flat all the same (claim by
-- due time reads due rows only), and an index without it reads every waiting row. A claimed row leaves this index and the next
-- but one, and enters that of the claimed.
CREATE INDEX pubsub_outbox_due_by_time
  ON pubsub_outbox_due (topic_name, next_retry_at)
  WHERE ordering_key IS NULL AND dead_at IS NULL AND claim_token IS NULL;

CREATE INDEX pubsub_outbox_due_by_key
  ON pubsub_outbox_due (topic_name, ordering_key, seq)
  WHERE ordering_key IS NOT NULL;

-- Which keys have rows that came due lately (claim-ordered.sql). Rows that were published are passed over once, when they
-- were new.
CREATE INDEX pubsub_outbox_due_lately
  ON pubsub_outbox_due (topic_name, next_retry_at)
  WHERE ordering_key IS NOT NULL AND dead_at IS NULL AND claim_token IS NULL;

-- Rows in flight and, once their lease is over, those whose claim ended without an outcome (claim-suspect.sql).
CREATE INDEX pubsub_outbox_due_claimed
  ON pubsub_outbox_due (topic_name, next_retry_at)
  WHERE claim_token IS NOT NULL;

CREATE INDEX pubsub_outbox_due_dead
  ON pubsub_outbox_due (topic_name, dead_at)
  WHERE dead_at IS NOT NULL;

-- The identities of published events ----------------------------------------------------------------------------------

CREATE TABLE pubsub_outbox_published (
  id           uuid NOT NULL,
  topic_name   text COLLATE "C" NOT NULL,
  completed_at timestamptz NOT NULL,
  message_id   text NOT NULL,
  payload_hash bytea NOT NULL,
  -- Whose event it was, when its payload is gone: a reconciliation must tell a service's from one that BigQuery has lost.
  source       text NOT NULL DEFAULT 'service',
  CONSTRAINT pubsub_outbox_published_pkey PRIMARY KEY (id)
) WITH (
  -- Append-only and kept for ever: only the visibility map and freezing give vacuum work here.
  autovacuum_vacuum_insert_scale_factor = 0.05
);

COMMENT ON TABLE pubsub_outbox_published IS
  'One row per published event. Retention deletes payloads, never these: an event read again after years is still known.';

-- Republishing looks for a span of time. The table grows in the order of completed_at, so a few bytes per megabyte do.
CREATE INDEX pubsub_outbox_published_by_time
  ON pubsub_outbox_published USING brin (completed_at)
  WITH (pages_per_range = 32, autosummarize = on);

-- The identities of discarded events ----------------------------------------------------------------------------------

CREATE TABLE pubsub_outbox_discarded (
  id           uuid NOT NULL,
  topic_name   text COLLATE "C" NOT NULL,
  discarded_at timestamptz NOT NULL,
  reason       text NOT NULL,
  who          text NOT NULL,
  payload_hash bytea NOT NULL,
  CONSTRAINT pubsub_outbox_discarded_pkey PRIMARY KEY (id)
);

COMMENT ON TABLE pubsub_outbox_discarded IS
  'The identities of events that an operator discarded. Retention deletes payloads, never these: an event that is read again is still known, and not queued.';

-- Queueing --------------------------------------------------------------------------------------------------------------

-- SET search_path FROM CURRENT, here and below: the function finds its tables whatever the caller's search path is.
CREATE FUNCTION pubsub_outbox_queue()
RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
  -- clock_timestamp(), not now(): a row must not look older than it is only because its transaction was long.
  INSERT INTO pubsub_outbox_due (seq, topic_name, ordering_key, payload_bytes, next_retry_at)
  SELECT seq, topic_name, ordering_key, octet_length(payload), clock_timestamp()
  FROM inserted;
  RETURN NULL;
END
$$;

CREATE TRIGGER pubsub_outbox_queue
  AFTER INSERT ON pubsub_outbox
  REFERENCING NEW TABLE AS inserted
  FOR EACH STATEMENT
  EXECUTE FUNCTION pubsub_outbox_queue();

-- A queued event needs its payload. Retention leaves such events out, but may read the queue just before somebody queues
-- an event again; this looks after the rows are locked. Whoever queues an event again takes FOR KEY SHARE on its row of
-- pubsub_outbox first, so that one of the two always sees the other.
CREATE FUNCTION pubsub_outbox_keep_queued()
RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
  queued bigint;
BEGIN
  SELECT count(*) INTO queued
  FROM deleted AS o
  WHERE EXISTS (SELECT FROM pubsub_outbox_due AS d WHERE d.seq = o.seq);
  IF queued > 0 THEN
    RAISE EXCEPTION '% event(s) are still queued for Pub/Sub and need their payloads; discard them from pubsub_outbox_due first', queued
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NULL;
END
$$;

CREATE TRIGGER pubsub_outbox_keep_queued
  AFTER DELETE ON pubsub_outbox
  REFERENCING OLD TABLE AS deleted
  FOR EACH STATEMENT
  EXECUTE FUNCTION pubsub_outbox_keep_queued();

-- The API for services ----------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox_put(
  topic        text,
  payload      bytea,
  attributes   jsonb DEFAULT '{}',
  ordering_key text DEFAULT NULL,
  event_key    text DEFAULT NULL,
  source       text DEFAULT 'service')
RETURNS uuid
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
  event_id uuid;
  known    bytea;
  offered  bytea;
BEGIN
  IF topic IS NULL OR btrim(topic) = '' THEN
    RAISE EXCEPTION 'outbox_put: topic is missing; give the Pub/Sub topic''s short name' USING ERRCODE = 'check_violation';
  END IF;
  IF outbox_topic_refusal(topic) IS NOT NULL THEN
    RAISE EXCEPTION 'outbox_put: %', outbox_topic_refusal(topic) USING ERRCODE = 'check_violation';
  END IF;
  IF payload IS NULL THEN
    RAISE EXCEPTION 'outbox_put: payload is NULL; an event without data has an empty payload' USING ERRCODE = 'check_violation';
  END IF;
  IF source IS NULL OR btrim(source) = '' THEN
    RAISE EXCEPTION 'outbox_put: source is missing; it is part of the event''s identity' USING ERRCODE = 'check_violation';
  END IF;
  IF event_key IS NOT NULL AND btrim(event_key) = '' THEN
    RAISE EXCEPTION 'outbox_put: event_key is blank; give the event''s own key, or NULL for a new id' USING ERRCODE = 'check_violation';
  END IF;
  IF ordering_key IS NOT NULL THEN
    -- seq is the order of publication only if writers of one key do not overlap; the lock ends with the transaction.
    -- A transaction that emits for several keys takes them in an order of its own: like rows, keep to one order.
    PERFORM pg_advisory_xact_lock(hashtextextended(concat_ws(chr(31), 'outbox_put', topic, ordering_key), 0));
  END IF;
  event_id := CASE WHEN event_key IS NULL THEN outbox_new_id() ELSE outbox_event_id(topic, source, event_key) END;
  INSERT INTO pubsub_outbox (id, topic_name, source, payload, attributes, ordering_key)
  SELECT event_id, topic, outbox_put.source, outbox_put.payload, coalesce(outbox_put.attributes, '{}'), outbox_put.ordering_key
  WHERE event_key IS NULL
     OR (NOT EXISTS (SELECT FROM pubsub_outbox_published AS p WHERE p.id = event_id)
         -- Created by V4__repair.sql; a function looks its tables up when it runs.
         AND NOT EXISTS (SELECT FROM pubsub_outbox_discarded AS x WHERE x.id = event_id))
  ON CONFLICT ON CONSTRAINT pubsub_outbox_id_unique DO NOTHING;
  IF NOT FOUND THEN
    -- Known under its key. The same payload is the same event; another one is not sent, and not lost in silence.
    offered := substr(sha256(payload), 1, 16);
    known := coalesce((SELECT o.payload_hash FROM pubsub_outbox AS o WHERE o.id = event_id),
                      (SELECT p.payload_hash FROM pubsub_outbox_published AS p WHERE p.id = event_id),
                      (SELECT x.payload_hash FROM pubsub_outbox_discarded AS x WHERE x.id = event_id));
    IF known <> offered THEN
      INSERT INTO produce_changed AS c (id, topic_name, source, event_key, known_hash, payload_hash)
      VALUES (event_id, topic, outbox_put.source, outbox_put.event_key, known, offered)
      ON CONFLICT ON CONSTRAINT produce_changed_pkey
      DO UPDATE SET payload_hash = excluded.payload_hash, last_seen_at = now(), times_seen = c.times_seen + 1;
      RAISE WARNING 'outbox_put: event % is known under its event_key with another payload; the first one stays, and this one is not sent', event_id
        USING HINT = 'A key names an event: emit a correction under a key of its own. produce_changed lists this one.';
    END IF;
  END IF;
  RETURN event_id;
END
$$;

COMMENT ON FUNCTION outbox_put(text, bytea, jsonb, text, text, text) IS
  'Emits an event in the caller''s transaction and returns its id. With event_key, a retried business transaction keeps its id and is queued once; another payload under a known key is not sent, but warned of and listed in produce_changed.';

CREATE FUNCTION outbox_put(
  topic        text,
  payload      text,
  attributes   jsonb DEFAULT '{}',
  ordering_key text DEFAULT NULL,
  event_key    text DEFAULT NULL,
  source       text DEFAULT 'service')
RETURNS uuid
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
  SELECT outbox_put(topic, convert_to(payload, 'UTF8'), attributes, ordering_key, event_key, source)
$$;

COMMENT ON FUNCTION outbox_put(text, text, jsonb, text, text, text) IS
  'outbox_put for a text payload, which is sent as UTF-8.';

-- What dashboards and outside checks read ---------------------------------------------------------------------------------

CREATE VIEW pubsub_outbox_status AS
SELECT o.id,
       o.topic_name,
       o.source,
       o.ordering_key,
       o.created_at,
       d.lock_id,
       d.locked_at,
       d.next_retry_at,
       coalesce(d.attempts, 0) AS attempts,
       d.last_error,
       p.completed_at,
       p.message_id,
       d.dead_at,
       CASE
         WHEN d.dead_at IS NOT NULL THEN 'dead'
         WHEN d.claim_token IS NOT NULL AND d.next_retry_at > now() THEN 'claimed'
         WHEN d.claim_token IS NULL AND d.next_retry_at > now() THEN 'waiting'
         WHEN d.seq IS NOT NULL THEN 'due'
         WHEN x.id IS NOT NULL THEN 'discarded'
         WHEN p.id IS NOT NULL THEN 'published'
         -- Neither queued nor published: loaded with triggers off, or its queue row was deleted. Nobody sends it.
         ELSE 'unqueued'
       END AS state,
       x.discarded_at,
       x.who AS discarded_by,
       x.reason AS discard_reason
FROM pubsub_outbox AS o
LEFT JOIN pubsub_outbox_due AS d ON d.seq = o.seq
LEFT JOIN pubsub_outbox_published AS p ON p.id = o.id
LEFT JOIN pubsub_outbox_discarded AS x ON x.id = o.id
UNION ALL
-- Events whose payload retention has deleted.
SELECT p.id, p.topic_name, p.source, NULL, NULL, NULL, NULL, NULL, 0, NULL, p.completed_at, p.message_id, NULL,
       CASE WHEN x.id IS NOT NULL THEN 'discarded' ELSE 'published' END,
       x.discarded_at, x.who, x.reason
FROM pubsub_outbox_published AS p
LEFT JOIN pubsub_outbox_discarded AS x ON x.id = p.id
WHERE NOT EXISTS (SELECT FROM pubsub_outbox AS o WHERE o.id = p.id)
UNION ALL
SELECT x.id, x.topic_name, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, 'discarded',
       x.discarded_at, x.who, x.reason
FROM pubsub_outbox_discarded AS x
WHERE NOT EXISTS (SELECT FROM pubsub_outbox AS o WHERE o.id = x.id)
  AND NOT EXISTS (SELECT FROM pubsub_outbox_published AS p WHERE p.id = x.id);

COMMENT ON VIEW pubsub_outbox_status IS
  'Every event with its state: due, claimed, waiting, dead, published or discarded (docs/state-machine.md); unqueued is a fault.';
