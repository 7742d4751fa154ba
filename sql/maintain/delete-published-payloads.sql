-- Deletes a small batch of payloads that were published longer ago than the retention; identities stay. Runs in maintain.
DELETE FROM pubsub_outbox
WHERE seq IN (
  SELECT o.seq
  FROM pubsub_outbox AS o
  JOIN pubsub_outbox_published AS p ON p.id = o.id
  WHERE o.created_at < now() - CAST(:#${properties:twinbox.maintain.payload-retention} AS interval)
    AND p.completed_at < now() - CAST(:#${properties:twinbox.maintain.payload-retention} AS interval)
    -- A republished event is queued again and still needs its payload.
    AND NOT EXISTS (SELECT FROM pubsub_outbox_due AS d WHERE d.seq = o.seq)
  ORDER BY o.created_at
  LIMIT CAST(:#${properties:twinbox.maintain.batch-size} AS int)
  -- Whoever queues an event again holds its row until then.
  FOR UPDATE OF o SKIP LOCKED)
