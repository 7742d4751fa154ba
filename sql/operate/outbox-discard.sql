-- Discards matching dead events of a topic. Runs when an operator asks.
SELECT discarded, more
FROM outbox_discard(:topic, :reason, CAST(:errorLike AS text), CAST(:olderThan AS interval), :maxRows, :who)
