-- Asks for the replay of these dead letters. Runs when an operator asks.
SELECT inbox_replay_ids(CAST(string_to_array(:ids, ',') AS bigint[]), :reason, :who) AS requested
