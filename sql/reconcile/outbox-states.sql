-- What the outbox knows of these events, each found by its id. Runs once per few hundred events of a reconciliation.
SELECT CAST(i.id AS text) AS id,
       coalesce(o.topic_name, p.topic_name, x.topic_name) AS topic_name,
       o.source,
       o.id IS NOT NULL AS payload_kept,
       d.seq IS NOT NULL AS queued,
       d.dead_at IS NOT NULL AS dead,
       coalesce(d.attempts, 0) AS attempts,
       d.last_error,
       p.completed_at IS NOT NULL AS published,
       p.completed_at >= clock_timestamp() - CAST(:grace AS interval) AS published_lately,
       x.id IS NOT NULL AS discarded,
       c.id IS NOT NULL AS changed,
       encode(coalesce(p.payload_hash, o.payload_hash, x.payload_hash), 'hex') AS payload_hash
FROM unnest(CAST(CAST(:ids AS text[]) AS uuid[])) AS i (id)
LEFT JOIN pubsub_outbox AS o ON o.id = i.id
LEFT JOIN pubsub_outbox_due AS d ON d.seq = o.seq
LEFT JOIN pubsub_outbox_published AS p ON p.id = i.id
LEFT JOIN pubsub_outbox_discarded AS x ON x.id = i.id
LEFT JOIN produce_changed AS c ON c.id = i.id
