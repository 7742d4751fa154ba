-- Keeps the step that this process works on from the others. Runs every second of a backfill.
UPDATE produce_backfill_step
SET claimed_until = clock_timestamp() + CAST(:#${properties:twinbox.produce.backfill.lease} AS interval)
WHERE topic_name = :#${properties:topic.name}
  AND source = :#${properties:twinbox.source}
  AND claim_token = :#${exchangeProperty.claimToken}
  AND done_at IS NULL
