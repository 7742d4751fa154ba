-- Gives back the step that this process did not finish, so that the next one need not wait. Runs when a backfill ends.
UPDATE produce_backfill_step
SET claim_token = NULL,
    claimed_until = NULL
WHERE topic_name = :#${properties:topic.name}
  AND source = :#${properties:twinbox.source}
  AND claim_token = :#${exchangeProperty.claimToken}
  AND done_at IS NULL
