-- Enters a run, before its query costs anything: not when the day's limit would be passed. Runs once per run of produce.
SELECT admitted, spent
FROM produce_run_begin(
  :#${exchangeProperty.runId}, :#${properties:topic.name}, :#${properties:twinbox.source}, CAST(:#estimate AS bigint),
  CAST(:#watermarkBefore AS text), CAST(:#${properties:twinbox.produce.max-bytes-billed-per-day} AS bigint),
  CAST(:#backfill AS text), CAST(:#step AS int))
