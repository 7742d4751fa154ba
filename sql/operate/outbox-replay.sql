-- Queues matching dead events of a topic again. Runs when an operator asks.
SELECT replayed, more, last_due_at
FROM outbox_replay(:topic, :reason, CAST(:errorLike AS text), CAST(:olderThan AS interval), :maxRows, :perSecond, CAST(:notBefore AS timestamptz), :who)
