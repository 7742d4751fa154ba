-- Reads the invoice events that appeared since the last run; produce runs it on BigQuery, each time
-- with @watermark bound to the highest watermark of the runs before, less the lookback (TIMESTAMP), and
-- @last to the end of time, or to the last position of a backfill's step.
--
-- What Twinbox takes from a row:
--   event_key   STRING, not NULL: unique per event. Reading a row twice gives the same id, so >= and
--               the lookback are harmless, and needed: rows of one microsecond may appear in two runs.
--   payload     STRING: the message's data, sent as it is. TO_JSON_STRING writes a NUMERIC with a
--               fraction as a JSON string ("123.45"), so no reader rounds it through a double.
--   watermark   TIMESTAMP: where the next run starts. No ORDER BY is needed.
--   attributes  JSON object of strings: the message's attributes.
SELECT
  invoice.event_id AS event_key,
  TO_JSON_STRING(invoice) AS payload,
  invoice.updated_at AS watermark,
  TO_JSON_STRING(STRUCT(
    invoice.event_type AS event_type,
    '1' AS schema_version
  )) AS attributes
FROM billing.invoices AS invoice
WHERE invoice.updated_at BETWEEN @watermark AND @last
