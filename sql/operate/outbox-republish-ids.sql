-- Queues these published or discarded events again. Runs when an operator asks.
SELECT queued, already_queued, without_payload
FROM outbox_republish_ids(CAST(string_to_array(:ids, ',') AS uuid[]), :reason, who => :who)
