-- The ids of events that BigQuery has, computed as produce does. Runs once per few thousand events of a reconciliation.
SELECT CAST(outbox_event_id(coalesce(u.topic_name, CAST(:topic AS text)), CAST(:source AS text), u.event_key) AS text) AS id
FROM unnest(CAST(:eventKeys AS text[]), CAST(:topics AS text[])) WITH ORDINALITY AS u (event_key, topic_name, line)
ORDER BY u.line
