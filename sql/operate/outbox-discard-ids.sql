-- Discards these events. Runs when an operator asks.
SELECT outbox_discard_ids(CAST(string_to_array(:ids, ',') AS uuid[]), :reason, :who) AS discarded
