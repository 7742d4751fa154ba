-- Queues these dead events again. Runs when an operator asks.
SELECT outbox_replay_ids(CAST(string_to_array(:ids, ',') AS uuid[]), :reason, who => :who) AS replayed
