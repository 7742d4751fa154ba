-- Sets how far a source counts as read. Runs when an operator asks.
SELECT old_value, new_value, epoch
FROM produce_watermark_set(CAST(:topic AS text), CAST(:source AS text), CAST(:type AS text), CAST(:value AS text),
                           CAST(:who AS text), CAST(:reason AS text))
