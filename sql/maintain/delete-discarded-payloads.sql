-- Deletes a small batch of payloads that were discarded longer ago than the retention; identities stay. Runs in maintain-batch.
DELETE FROM pubsub_outbox
WHERE seq IN (
  SELECT o.seq
  FROM pubsub_outbox_discarded AS x
  JOIN pubsub_outbox AS o ON o.id = x.id
  WHERE x.discarded_at < now() - CAST(:#${properties:twinbox.maintain.payload-retention} AS interval)
    AND NOT EXISTS (SELECT FROM pubsub_outbox_due AS d WHERE d.seq = o.seq)
  ORDER BY o.seq
  LIMIT CAST(:#${properties:twinbox.maintain.batch-size} AS int)
  -- Whoever queues an event again holds its row until then.
  FOR UPDATE OF o SKIP LOCKED)
