-- How far the source was read, and what the day has cost. Runs at the start of a reconciliation.
SELECT w.type, w.value, produce_bytes_today(CAST(:topic AS text), CAST(:source AS text)) AS bytes_today
FROM (SELECT 1) AS one
LEFT JOIN produce_watermark AS w ON w.topic_name = :topic AND w.source = :source
