-- Moves the watermark to a run's maximum, once, after its last row is committed. 0 rows when an operator's set or another
-- run came between: the run's rows stand, the watermark stays where the other put it.
INSERT INTO produce_watermark AS w (topic_name, source, type, value, run_id)
SELECT :#${properties:topic.name}, :#${properties:twinbox.source}, :#type, :#value, :#${exchangeProperty.runId}
ON CONFLICT ON CONSTRAINT produce_watermark_pkey
DO UPDATE SET type = excluded.type, value = excluded.value, run_id = excluded.run_id, updated_at = now()
WHERE w.epoch = CAST(:#epoch AS bigint)
  AND w.value = CAST(:#startValue AS text)
