-- Writes down that a replay failed: the letter stays open and is not tried again by itself. Runs after the rollback.
UPDATE transactional_inbox_dead_letter
SET attempts = attempts + 1,
    reason = left(:#${exchangeProperty.failure}, 4000),
    last_dead_at = now(),
    replay_requested_at = NULL,
    replay_next_at = NULL,
    replay_lock_id = NULL,
    replay_token = NULL
WHERE id = CAST(:#${exchangeProperty.replayId} AS bigint)
  AND replay_token = CAST(:#${exchangeProperty.replayToken} AS uuid)
