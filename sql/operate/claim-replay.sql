-- Leases the next dead letter whose replay was asked for, skipping those that other pods hold. Runs with every poll of inbox-replay.
-- The lease is the next try: a letter of a pod that dies is due again when it ends. While the replay's transaction is open it
-- holds the letter's row, so it is skipped here also when the lease has run out.
UPDATE transactional_inbox_dead_letter AS l
SET replay_lock_id = :#${properties:twinbox.pod},
    replay_token = CAST(:#${exchangeProperty.replayToken} AS uuid),
    replay_next_at = now() + interval '60 seconds',
    replay_claims = l.replay_claims + 1
WHERE l.id = (
  SELECT d.id
  FROM transactional_inbox_dead_letter AS d
  WHERE d.consumer = :#${properties:twinbox.consumer}
    AND d.replay_requested_at IS NOT NULL
    AND d.replay_next_at <= now()
  ORDER BY d.replay_next_at
  LIMIT 1
  FOR UPDATE SKIP LOCKED)
RETURNING l.id, l.idempotency_key, l.message_id, l.payload, CAST(l.attributes AS text) AS attributes, l.published_at, l.replay_claims
