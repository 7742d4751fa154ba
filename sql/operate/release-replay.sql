-- Gives a letter back whose replay the database's trouble has stopped, uncounted, to be tried again soon. Runs after the rollback.
UPDATE transactional_inbox_dead_letter
SET replay_next_at = now() + interval '5 seconds',
    replay_claims = greatest(replay_claims - 1, 0),
    replay_lock_id = NULL,
    replay_token = NULL
WHERE id = CAST(:#${exchangeProperty.replayId} AS bigint)
  AND replay_token = CAST(:#${exchangeProperty.replayToken} AS uuid)
