-- How far each source was read, who set it last and why, and how its last run ended. Runs when an operator asks.
SELECT *
FROM produce_watermark_status
WHERE topic_name = :topic
  AND source = :source
