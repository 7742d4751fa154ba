-- Moves the watermark to a run's maximum, once, after its last row is committed. Never back, and never past what the run
-- did not read: it began not above the stored one. 0 rows when an operator's set came between (the epoch), or another run
-- that read further: the run's rows stand, the watermark stays where the other put it.
-- An empty start value is a first run's, which found no watermark: it overwrites none. Only a STRING can be empty itself.
INSERT INTO produce_watermark AS w (topic_name, source, type, value, run_id)
SELECT :#${properties:topic.name}, :#${properties:twinbox.source}, :#type, :#value, :#${exchangeProperty.runId}
WHERE produce_watermark_not_above(:#type, :#value, :#value)
ON CONFLICT ON CONSTRAINT produce_watermark_pkey
DO UPDATE SET value = excluded.value, run_id = excluded.run_id, updated_at = now()
WHERE w.epoch = CAST(:#epoch AS bigint)
  AND w.type = excluded.type
  AND CASE
        WHEN CAST(:#startValue AS text) = '' THEN w.value = '' AND w.type = 'STRING'
        ELSE produce_watermark_not_above(w.type, :#startValue, w.value)
      END
  AND NOT produce_watermark_not_above(w.type, excluded.value, w.value)
