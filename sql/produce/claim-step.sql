-- Claims the first step of a backfill that is neither done nor another process's. Runs before each step.
UPDATE produce_backfill_step AS s
SET claim_token = :#${exchangeProperty.claimToken},
    claimed_until = clock_timestamp() + CAST(:#${properties:twinbox.produce.backfill.lease} AS interval),
    attempts = s.attempts + 1
FROM (
  SELECT n.topic_name, n.source, n.name, n.number
  FROM produce_backfill_step AS n
  WHERE n.topic_name = :#${properties:topic.name}
    AND n.source = :#${properties:twinbox.source}
    AND n.name = :#${exchangeProperty.backfill}
    AND n.done_at IS NULL
    AND (n.claimed_until IS NULL OR n.claimed_until <= clock_timestamp())
  ORDER BY n.number
  LIMIT 1
  FOR UPDATE SKIP LOCKED) AS open
WHERE s.topic_name = open.topic_name
  AND s.source = open.source
  AND s.name = open.name
  AND s.number = open.number
RETURNING s.number, s.from_value, s.until_value
