-- Discards these dead letters. Runs when an operator asks.
SELECT inbox_discard_ids(CAST(string_to_array(:ids, ',') AS bigint[]), :reason, :who) AS discarded
