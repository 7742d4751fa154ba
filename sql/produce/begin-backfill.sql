-- Enters a backfill with its steps, or finds the one of this name as it stands. Runs once per process of a backfill.
SELECT name, type, from_value, until_value, step
FROM produce_backfill_begin(
  :#${properties:topic.name}, :#${properties:twinbox.source}, :#name, :#type, :#step, CAST(:#bounds AS text[]))
