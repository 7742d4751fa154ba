-- Deletes a small batch of payloads that were published longer ago than the retention; identities stay. Runs in maintain.
DELETE FROM pubsub_outbox
WHERE seq IN (
  SELECT o.seq
  FROM pubsub_outbox AS o
  WHERE o.created_at < now() - CAST(:#${properties:twinbox.maintain.payload-retention} AS interval)
    -- Not a join: the identities are kept for ever, and must be looked up, never read from end to end.
    AND (SELECT p.completed_at
         FROM pubsub_outbox_published AS p
         WHERE p.id = o.id) < now() - CAST(:#${properties:twinbox.maintain.payload-retention} AS interval)
    -- A republished event is queued again and still needs its payload.
    AND (SELECT d.seq
         FROM pubsub_outbox_due AS d
         WHERE d.seq = o.seq) IS NULL
  ORDER BY o.created_at
  LIMIT CAST(:#${properties:twinbox.maintain.batch-size} AS int)
  -- Whoever queues an event again holds its row until then.
  FOR UPDATE OF o SKIP LOCKED)
