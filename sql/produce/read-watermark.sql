-- How far the source was read: the start of a run. No row before the first run. Runs once per run of produce.
SELECT type, value, epoch
FROM produce_watermark
WHERE topic_name = :#${properties:topic.name}
  AND source = :#${properties:twinbox.source}
