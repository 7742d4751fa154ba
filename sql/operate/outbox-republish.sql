-- Queues a topic's events that were published within a span of time again. Runs when an operator asks.
SELECT queued, already_queued, without_payload, next_from, last_due_at
FROM outbox_republish(:topic, CAST(:from AS timestamptz), CAST(:until AS timestamptz), :reason, :maxRows, :perSecond,
                      CAST(:notBefore AS timestamptz), :who)
