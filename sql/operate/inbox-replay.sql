-- Asks for the replay of a consumer's matching dead letters. Runs when an operator asks.
SELECT requested, more
FROM inbox_replay(:consumer, :reason, CAST(:errorLike AS text), CAST(:olderThan AS interval), :maxRows, :who)
