-- Queues a chunk of extracted rows: new events go to the outbox, refused ones to the rejects, known ones nowhere. Runs once
-- per chunk, in a transaction of its own, so a run that dies has committed whole chunks and nothing else.
WITH extracted AS MATERIALIZED (
  SELECT r.*,
         CASE WHEN r.reason IS NULL THEN outbox_event_id(r.topic_name, :#${properties:twinbox.source}, r.event_key) END AS id,
         coalesce(r.reason, outbox_refusal(r.payload, CAST(r.attributes AS jsonb), r.ordering_key)) AS refusal,
         substr(sha256(r.payload), 1, 16) AS payload_hash
  FROM (
    SELECT line, event_key, payload, coalesce(topic_name, :#${properties:topic.name}) AS topic_name, ordering_key, reason,
           -- Attributes are JSON only where the reader found no fault in them.
           CASE WHEN reason IS NULL THEN coalesce(attributes, '{}') END AS attributes,
           attributes AS raw_attributes
    FROM unnest(CAST(:#eventKeys AS text[]), CAST(:#payloads AS bytea[]), CAST(:#attributes AS text[]),
                CAST(:#orderingKeys AS text[]), CAST(:#topics AS text[]), CAST(:#reasons AS text[]))
         WITH ORDINALITY AS u (event_key, payload, attributes, ordering_key, topic_name, reason, line)) AS r
),
queued AS (
  INSERT INTO pubsub_outbox (id, topic_name, source, payload, attributes, ordering_key)
  SELECT e.id, e.topic_name, :#${properties:twinbox.source}, e.payload, CAST(e.attributes AS jsonb), e.ordering_key
  FROM extracted AS e
  WHERE e.refusal IS NULL
    AND NOT EXISTS (SELECT FROM pubsub_outbox_published AS p WHERE p.id = e.id)
    AND NOT EXISTS (SELECT FROM pubsub_outbox_discarded AS x WHERE x.id = e.id)
  -- seq is the order of publication within an ordering key.
  ORDER BY e.line
  ON CONFLICT ON CONSTRAINT pubsub_outbox_id_unique DO NOTHING
  RETURNING id
),
known AS MATERIALIZED (
  SELECT DISTINCT ON (e.id) e.id, e.topic_name, e.event_key, e.payload_hash,
         coalesce(o.payload_hash, p.payload_hash, x.payload_hash) AS known_hash
  FROM extracted AS e
  LEFT JOIN pubsub_outbox AS o ON o.id = e.id
  LEFT JOIN pubsub_outbox_published AS p ON p.id = e.id
  LEFT JOIN pubsub_outbox_discarded AS x ON x.id = e.id
  WHERE e.refusal IS NULL
    AND (o.id IS NOT NULL OR p.id IS NOT NULL OR x.id IS NOT NULL)
),
changed AS (
  INSERT INTO produce_changed AS c (id, topic_name, source, event_key, known_hash, payload_hash)
  SELECT k.id, k.topic_name, :#${properties:twinbox.source}, k.event_key, k.known_hash, k.payload_hash
  FROM known AS k
  WHERE k.payload_hash <> k.known_hash
  ON CONFLICT ON CONSTRAINT produce_changed_pkey
  DO UPDATE SET payload_hash = excluded.payload_hash, last_seen_at = now(), times_seen = c.times_seen + 1
  RETURNING id
),
-- An event that died unpublished takes the payload of its re-read row and is due again.
corrected AS (
  UPDATE pubsub_outbox AS o
  SET payload = e.payload,
      attributes = CAST(e.attributes AS jsonb)
  FROM extracted AS e
  JOIN known AS k ON k.id = e.id
  WHERE o.id = e.id
    AND e.payload_hash = k.payload_hash
    AND k.payload_hash <> k.known_hash
    AND EXISTS (SELECT FROM pubsub_outbox_due AS d WHERE d.seq = o.seq AND d.dead_at IS NOT NULL)
    AND NOT EXISTS (SELECT FROM pubsub_outbox_published AS p WHERE p.id = o.id)
  RETURNING o.seq, octet_length(o.payload) AS payload_bytes
),
revived AS (
  UPDATE pubsub_outbox_due AS d
  SET dead_at = NULL,
      attempts = 0,
      payload_bytes = c.payload_bytes,
      next_retry_at = clock_timestamp()
  FROM corrected AS c
  WHERE d.seq = c.seq
    AND d.dead_at IS NOT NULL
  RETURNING d.seq
),
rejected AS (
  INSERT INTO produce_reject AS j
    (id, topic_name, source, event_key, reason, payload, attributes, ordering_key, run_id)
  SELECT DISTINCT ON (x.reject_id) x.reject_id, x.topic_name, :#${properties:twinbox.source}, x.event_key, x.refusal, x.payload,
         convert_to(x.raw_attributes, 'UTF8'), convert_to(x.ordering_key, 'UTF8'), :#${exchangeProperty.runId}
  FROM (
    SELECT e.*,
           -- The same refused row, read again, is the same reject.
           outbox_event_id(e.topic_name, :#${properties:twinbox.source},
             concat_ws(':', coalesce(e.event_key, 'no key'), encode(coalesce(e.payload_hash, ''), 'hex'))) AS reject_id
    FROM extracted AS e
    WHERE e.refusal IS NOT NULL) AS x
  ON CONFLICT ON CONSTRAINT produce_reject_pkey
  DO UPDATE SET reason = excluded.reason, run_id = excluded.run_id, last_seen_at = now(), times_seen = j.times_seen + 1
  RETURNING id
)
SELECT (SELECT count(*) FROM extracted) AS read,
       (SELECT count(*) FROM queued) AS queued,
       (SELECT count(*) FROM changed) AS changed,
       (SELECT count(*) FROM revived) AS revived,
       (SELECT count(*) FROM rejected) AS rejected
