-- Gives a dead letter without a key the key of its event. Runs when an operator asks.
SELECT CAST(inbox_assign_key(:id, :key, :reason, :who) AS text) AS done
