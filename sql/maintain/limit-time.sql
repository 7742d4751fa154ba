-- Bounds the statements of this transaction: a clean-up that waits or reads too long gives up. Runs first in maintain-batch.
SELECT set_config('statement_timeout',
                  CAST(CAST(extract(EPOCH FROM CAST(:#${properties:twinbox.maintain.statement-timeout} AS interval)) * 1000 AS bigint) AS text),
                  true)
