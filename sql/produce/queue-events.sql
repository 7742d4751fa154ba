-- Queues a chunk of extracted rows: new events go to the outbox, refused ones to the rejects, known ones nowhere. Runs once
-- per chunk, in a transaction of its own, so a run that dies has committed whole chunks and nothing else.
WITH given AS MATERIALIZED (
  SELECT u.line, u.event_key, u.payload, coalesce(u.topic_name, :#${properties:topic.name}) AS topic_name, u.ordering_key,
         u.attributes AS raw_attributes,
         substr(sha256(u.payload), 1, 16) AS payload_hash,
         -- What cannot be read as JSON is found before it is read as JSON.
         coalesce(u.reason, outbox_attributes_fault(u.attributes)) AS reason
  FROM unnest(CAST(:#eventKeys AS text[]), CAST(:#payloads AS bytea[]), CAST(:#attributes AS text[]),
              CAST(:#orderingKeys AS text[]), CAST(:#topics AS text[]), CAST(:#reasons AS text[]))
       WITH ORDINALITY AS u (event_key, payload, attributes, ordering_key, topic_name, reason, line)
),
-- Two runs that read the same events in another order would wait for each other's rows; so chunks of one topic and source
-- take turns. Everything below reads extracted, so nothing is written before the lock is held.
turn AS MATERIALIZED (
  SELECT count(*) AS topics
  FROM (SELECT pg_advisory_xact_lock(t.lock)
        FROM (SELECT DISTINCT hashtextextended(concat_ws(chr(31), 'queue_events', topic_name, CAST(:#${properties:twinbox.source} AS text)), 0) AS lock
              FROM given
              ORDER BY lock) AS t) AS locked
),
-- Asked once per topic: it is most often one, and a regular expression per row would take a sixth of the time.
topics AS MATERIALIZED (
  SELECT d.topic_name, outbox_topic_refusal(d.topic_name) AS refusal
  FROM (SELECT DISTINCT topic_name FROM given) AS d
),
extracted AS MATERIALIZED (
  SELECT r.*,
         CASE WHEN r.refusal IS NULL THEN outbox_event_id(r.topic_name, :#${properties:twinbox.source}, r.event_key) END AS id
  FROM (
    SELECT g.*,
           CASE WHEN g.reason IS NULL THEN coalesce(CAST(g.raw_attributes AS jsonb), '{}') END AS attributes,
           CASE
             WHEN g.reason IS NOT NULL THEN g.reason
             ELSE coalesce(t.refusal,
                           outbox_refusal(g.payload, coalesce(CAST(g.raw_attributes AS jsonb), '{}'), g.ordering_key))
           END AS refusal
    FROM turn
    CROSS JOIN given AS g
    JOIN topics AS t ON t.topic_name = g.topic_name
    WHERE turn.topics >= 0
    -- Keeps the planner from writing the refusal out twice, and asking for it twice per row.
    OFFSET 0) AS r
),
queued AS (
  INSERT INTO pubsub_outbox (id, topic_name, source, payload, attributes, ordering_key)
  SELECT e.id, e.topic_name, :#${properties:twinbox.source}, e.payload, e.attributes, e.ordering_key
  FROM extracted AS e
  WHERE e.refusal IS NULL
    AND NOT EXISTS (SELECT FROM pubsub_outbox_published AS p WHERE p.id = e.id)
    AND (SELECT x.id FROM pubsub_outbox_discarded AS x WHERE x.id = e.id) IS NULL
  -- seq is the order of publication within an ordering key.
  ORDER BY e.line
  ON CONFLICT ON CONSTRAINT pubsub_outbox_id_unique DO NOTHING
  RETURNING id
),
-- Rows whose payload or attributes are not those of the event that the outbox knows; of a new event it knows the first row
-- of this chunk. Of several such rows the last one counts.
differing AS MATERIALIZED (
  SELECT DISTINCT ON (k.id) k.*
  FROM (
    SELECT e.id, e.topic_name, e.event_key, e.payload, e.attributes, e.payload_hash, e.line,
           o.seq, o.attributes AS known_attributes, p.id IS NOT NULL AS published,
           coalesce(o.payload_hash, p.payload_hash,
                    (SELECT x.payload_hash FROM pubsub_outbox_discarded AS x WHERE x.id = e.id),
                    first_value(e.payload_hash) OVER (PARTITION BY e.id ORDER BY e.line)) AS known_hash
    FROM extracted AS e
    LEFT JOIN pubsub_outbox AS o ON o.id = e.id
    LEFT JOIN pubsub_outbox_published AS p ON p.id = e.id
    WHERE e.refusal IS NULL) AS k
  WHERE k.payload_hash <> k.known_hash
     OR k.attributes <> k.known_attributes
  ORDER BY k.id, k.line DESC
),
-- An event that died unpublished takes what was read now and is due again. Its queue row is locked first, so that nobody
-- sends the old payload meanwhile.
dead AS MATERIALIZED (
  SELECT d.seq
  FROM differing AS k
  JOIN pubsub_outbox_due AS d ON d.seq = k.seq
  WHERE d.dead_at IS NOT NULL
    AND NOT k.published
  ORDER BY d.seq
  FOR UPDATE OF d
),
corrected AS (
  UPDATE pubsub_outbox AS o
  SET payload = k.payload,
      attributes = k.attributes
  FROM differing AS k
  JOIN dead ON dead.seq = k.seq
  WHERE o.seq = k.seq
  RETURNING o.seq, octet_length(o.payload) AS payload_bytes
),
revived AS (
  UPDATE pubsub_outbox_due AS d
  SET dead_at = NULL,
      attempts = 0,
      crashes = 0,
      solo = false,
      payload_bytes = c.payload_bytes,
      next_retry_at = clock_timestamp()
  FROM corrected AS c
  WHERE d.seq = c.seq
  RETURNING d.seq
),
changed AS (
  INSERT INTO produce_changed AS c (id, topic_name, source, event_key, known_hash, payload_hash)
  SELECT k.id, k.topic_name, :#${properties:twinbox.source}, k.event_key, k.known_hash, k.payload_hash
  FROM differing AS k
  WHERE k.payload_hash <> k.known_hash
    AND NOT EXISTS (SELECT FROM dead WHERE dead.seq = k.seq)
  ON CONFLICT ON CONSTRAINT produce_changed_pkey
  DO UPDATE SET payload_hash = excluded.payload_hash, last_seen_at = now(), times_seen = c.times_seen + 1
  RETURNING c.times_seen
),
rejected AS (
  INSERT INTO produce_reject AS j
    (id, topic_name, source, event_key, reason, payload, attributes, ordering_key, run_id)
  SELECT DISTINCT ON (x.reject_id) x.reject_id, x.topic_name, :#${properties:twinbox.source}, x.event_key, x.refusal, x.payload,
         convert_to(x.raw_attributes, 'UTF8'), convert_to(x.ordering_key, 'UTF8'), :#${exchangeProperty.runId}
  FROM (
    SELECT e.*,
           -- The same refused row, read again, is the same reject. JSON keeps NULL apart from any text.
           outbox_event_id(e.topic_name, :#${properties:twinbox.source},
             CAST(json_build_array(e.event_key, encode(e.payload_hash, 'hex'), e.raw_attributes, e.ordering_key) AS text)) AS reject_id
    FROM extracted AS e
    WHERE e.refusal IS NOT NULL) AS x
  ORDER BY x.reject_id
  ON CONFLICT ON CONSTRAINT produce_reject_pkey
  DO UPDATE SET reason = excluded.reason, run_id = excluded.run_id, last_seen_at = now(), times_seen = j.times_seen + 1
  RETURNING j.times_seen
),
-- The run's own counts commit with the chunk, so that they are true of a run that was killed, too. A run that works on the
-- same chunk at the same time has another row.
counted AS (
  UPDATE produce_run AS n
  SET rows_read = coalesce(n.rows_read, 0) + (SELECT count(*) FROM extracted),
      rows_queued = coalesce(n.rows_queued, 0) + (SELECT count(*) FROM queued),
      rows_changed = coalesce(n.rows_changed, 0) + (SELECT count(*) FROM changed),
      rows_revived = coalesce(n.rows_revived, 0) + (SELECT count(*) FROM revived),
      rows_rejected = coalesce(n.rows_rejected, 0) + (SELECT count(*) FROM rejected)
  WHERE n.run_id = :#${exchangeProperty.runId}
)
SELECT (SELECT count(*) FROM extracted) AS read,
       (SELECT count(*) FROM queued) AS queued,
       (SELECT count(*) FROM changed) AS changed,
       (SELECT count(*) FROM revived) AS revived,
       (SELECT count(*) FROM rejected) AS rejected,
       -- Of the changed and the rejected, those that no run has seen before.
       (SELECT count(*) FROM changed WHERE times_seen = 1)
         + (SELECT count(*) FROM rejected WHERE times_seen = 1) AS fresh
