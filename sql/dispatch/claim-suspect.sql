-- Quarantine: leases one due row whose claim ended without an outcome, with or without an ordering key. It may be what ended
-- its process, so it is published alone. Runs with every poll of dispatch-suspects; a process has one such row at a time.
-- When max-crashes claims that the row had to itself ended so, one after the other, it is dead instead: dead_now says so.
-- With an ordering key it is claimed when it is the oldest of its key.
-- Does not wait for the disk: a claim that a crash of the server takes back is made, and published, again.
-- Planned anew each time, from its second run on a connection on: a plan that is kept from when the queue was empty reads the
-- whole queue for each row, until the next vacuum.
WITH unsynced AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true) || set_config('plan_cache_mode', 'force_custom_plan', false) AS setting
),
suspect AS MATERIALIZED (
  SELECT d.ctid AS tid, d.solo AND d.crashes + 1 >= CAST(:#${properties:twinbox.dispatch.max-crashes} AS int) AS dies
  FROM pubsub_outbox_due AS d
  WHERE d.topic_name = :#${properties:topic.name}
    AND d.claim_token IS NOT NULL
    AND d.next_retry_at <= now()
    AND (d.ordering_key IS NULL
         OR NOT EXISTS (
           SELECT
           FROM pubsub_outbox_due AS older
           WHERE older.topic_name = d.topic_name
             AND older.ordering_key = d.ordering_key
             AND older.seq < d.seq))
  ORDER BY d.next_retry_at, d.seq
  LIMIT 1
  FOR UPDATE OF d SKIP LOCKED
),
claimed AS (
  UPDATE pubsub_outbox_due AS d
  SET lock_id = :#${properties:twinbox.pod},
      claim_token = CAST(:#${exchangeProperty.claimToken} AS uuid),
      locked_at = now(),
      next_retry_at = now() + CAST(:#${properties:twinbox.dispatch.lease} AS interval),
      claims = d.claims + 1,
      -- Only a claim that the row had to itself tells of the row.
      crashes = CASE WHEN d.solo THEN d.crashes + 1 ELSE d.crashes END,
      solo = true
  FROM suspect
  WHERE d.ctid = suspect.tid
    AND NOT suspect.dies
  RETURNING d.seq, d.attempts, d.last_error, false AS dead_now
),
quarantined AS (
  UPDATE pubsub_outbox_due AS d
  SET dead_at = now(),
      crashes = d.crashes + 1,
      solo = false,
      last_error = format('quarantined: %s times in a row the process that published this event alone ended without an outcome, last %s',
                          d.crashes + 1, d.lock_id),
      lock_id = NULL,
      claim_token = NULL,
      locked_at = NULL
  FROM suspect
  WHERE d.ctid = suspect.tid
    AND suspect.dies
  RETURNING d.seq, d.attempts, d.last_error, true AS dead_now
)
SELECT o.seq, o.id, o.payload, CAST(o.attributes AS text) AS attributes, o.ordering_key, c.attempts, c.last_error, c.dead_now
FROM (SELECT seq, attempts, last_error, dead_now FROM claimed
      UNION ALL
      SELECT seq, attempts, last_error, dead_now FROM quarantined) AS c
JOIN pubsub_outbox AS o ON o.seq = c.seq
WHERE (SELECT setting IS NOT NULL FROM unsynced)
