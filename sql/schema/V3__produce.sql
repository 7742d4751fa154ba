-- What produce remembers: how far each source was read, what was refused, and what was read again with another payload.

CREATE TABLE produce_watermark (
  topic_name text COLLATE "C" NOT NULL,
  source     text COLLATE "C" NOT NULL,
  -- The BigQuery type of the query's watermark column; value is its exact text in BigQuery's own notation.
  type       text NOT NULL,
  value      text NOT NULL,
  -- Moved by an operator's set only. A run in flight carries the epoch it began with and cannot overwrite the set.
  epoch      bigint NOT NULL DEFAULT 0,
  run_id     text,
  updated_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT produce_watermark_pkey PRIMARY KEY (topic_name, source),
  CONSTRAINT produce_watermark_type_known CHECK (type IN ('TIMESTAMP', 'DATETIME', 'DATE', 'INT64', 'STRING'))
);

COMMENT ON TABLE produce_watermark IS
  'How far each source was read. Moved once per run, after its last row is committed.';

CREATE FUNCTION produce_watermark_not_above(type text, low text, high text)
RETURNS boolean
LANGUAGE plpgsql
STABLE
AS $$
-- By type, as texts say little: '2026-01-01T00:00:00Z' and '2026-01-01T00:00:00.000Z' are one position. BigQuery compares
-- strings by their code points, which is the order of their bytes.
BEGIN
  RETURN CASE type
    WHEN 'TIMESTAMP' THEN CAST(low AS timestamptz) <= CAST(high AS timestamptz)
    WHEN 'DATETIME' THEN CAST(low AS timestamp) <= CAST(high AS timestamp)
    WHEN 'DATE' THEN CAST(low AS date) <= CAST(high AS date)
    WHEN 'INT64' THEN CAST(low AS bigint) <= CAST(high AS bigint)
    ELSE low COLLATE "C" <= high COLLATE "C"
  END;
END
$$;

COMMENT ON FUNCTION produce_watermark_not_above(text, text, text) IS
  'Whether a watermark is not above another one of its type; fails when one of them is none of the type.';

CREATE TABLE produce_reject (
  id             uuid NOT NULL,
  topic_name     text COLLATE "C" NOT NULL,
  source         text COLLATE "C" NOT NULL,
  -- NULL when the row had none; a NUL in it is written as U+2400.
  event_key      text COLLATE "C",
  reason         text NOT NULL,
  payload        bytea,
  attributes     bytea,
  ordering_key   bytea,
  run_id         text NOT NULL,
  first_seen_at  timestamptz NOT NULL DEFAULT now(),
  last_seen_at   timestamptz NOT NULL DEFAULT now(),
  times_seen     int NOT NULL DEFAULT 1,
  CONSTRAINT produce_reject_pkey PRIMARY KEY (id)
);

-- Reconciliation asks for events by their keys. Part of a key, as an index entry must not be large.
CREATE INDEX produce_reject_by_key
  ON produce_reject (topic_name, source, left(event_key, 200));

COMMENT ON TABLE produce_reject IS
  'Rows of a query that the outbox refused, with the reason and all their bytes. The other rows of the run went on.';

CREATE TABLE produce_changed (
  id            uuid NOT NULL,
  topic_name    text NOT NULL,
  source        text NOT NULL,
  event_key     text NOT NULL,
  known_hash    bytea NOT NULL,
  payload_hash  bytea NOT NULL,
  first_seen_at timestamptz NOT NULL DEFAULT now(),
  last_seen_at  timestamptz NOT NULL DEFAULT now(),
  times_seen    int NOT NULL DEFAULT 1,
  CONSTRAINT produce_changed_pkey PRIMARY KEY (id)
);

COMMENT ON TABLE produce_changed IS
  'Events that were read or put again under the same key with another payload. They are not sent again: a new nullable column changes every re-read row. For the operator to look at.';
