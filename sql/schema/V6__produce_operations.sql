-- Operating produce: a row per run with its price, the limit per day, the operator's way to set a watermark, and backfills.

CREATE TABLE produce_run (
  run_id           text COLLATE "C" NOT NULL,
  topic_name       text COLLATE "C" NOT NULL,
  source           text COLLATE "C" NOT NULL,
  state            text NOT NULL DEFAULT 'running',
  started_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  finished_at      timestamptz,
  -- What the dry run said; it counts for the day until the run knows what it was billed.
  bytes_estimated  bigint NOT NULL,
  bytes_processed  bigint,
  bytes_billed     bigint,
  slot_ms          bigint,
  jobs             int,
  -- Committed with each chunk, so they are true of a run that goes on or was killed.
  rows_read        bigint,
  rows_queued      bigint,
  rows_changed     bigint,
  rows_revived     bigint,
  rows_rejected    bigint,
  watermark_before text,
  watermark_after  text,
  error            text,
  -- The backfill and its step that the run worked on; NULL for a regular run.
  backfill         text COLLATE "C",
  backfill_step    int,
  CONSTRAINT produce_run_pkey PRIMARY KEY (run_id),
  CONSTRAINT produce_run_state_known CHECK (state IN ('running', 'succeeded', 'failed'))
);

COMMENT ON TABLE produce_run IS
  'One row per run of a topic''s query, kept for 35 days. A run whose process died stays running, and counts with its estimate.';

CREATE INDEX produce_run_by_start
  ON produce_run (topic_name, source, started_at);

-- Which sources ran lately, for metrics.
CREATE INDEX produce_run_by_time
  ON produce_run (started_at);

CREATE INDEX produce_run_by_backfill
  ON produce_run (topic_name, source, backfill, backfill_step)
  WHERE backfill IS NOT NULL;

CREATE FUNCTION produce_bytes_today(topic text, source text)
RETURNS bigint
LANGUAGE sql
STABLE
SET search_path FROM CURRENT
AS $$
  SELECT coalesce(CAST(sum(coalesce(r.bytes_billed, r.bytes_estimated)) AS bigint), 0)
  FROM produce_run AS r
  WHERE r.topic_name = topic
    AND r.source = produce_bytes_today.source
    AND r.started_at >= date_trunc('day', statement_timestamp() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
$$;

COMMENT ON FUNCTION produce_bytes_today(text, text) IS
  'Bytes that the runs of a topic and source were billed since midnight UTC; a run that is not finished counts with its estimate.';

CREATE FUNCTION produce_run_begin(
  run_id text, topic text, source text, bytes_estimated bigint, watermark_before text, bytes_per_day bigint,
  backfill text DEFAULT NULL, backfill_step int DEFAULT NULL)
RETURNS TABLE (admitted boolean, spent bigint)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
  -- Two runs that begin at the same time must not both take what is left of the day.
  PERFORM pg_advisory_xact_lock(hashtextextended(concat_ws(chr(31), 'produce_run', topic, source), 0));
  spent := CASE WHEN bytes_per_day > 0 THEN produce_bytes_today(topic, source) ELSE 0 END;
  admitted := bytes_per_day <= 0 OR bytes_per_day - spent >= bytes_estimated;
  IF admitted THEN
    INSERT INTO produce_run (run_id, topic_name, source, bytes_estimated, watermark_before, backfill, backfill_step)
    VALUES ($1, $2, $3, $4, $5, $7, $8);
  END IF;
  RETURN NEXT;
END
$$;

COMMENT ON FUNCTION produce_run_begin(text, text, text, bigint, text, bigint, text, int) IS
  'Enters a run, unless its estimate and what the day has cost already are more than bytes_per_day (0: no limit).';

-- The operator's watermark --------------------------------------------------------------------------------------------------

CREATE FUNCTION produce_watermark_text(type text, value text)
RETURNS text
LANGUAGE plpgsql
STABLE
SET search_path FROM CURRENT
SET timezone TO 'UTC'
SET datestyle TO 'ISO, YMD'
AS $$
DECLARE
  form     text;
  example  text;
  day      text := '\d{4}-\d{2}-\d{2}';
  clock    text := '([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?';
BEGIN
  SELECT f.form, f.example
  INTO form, example
  FROM (VALUES
    ('TIMESTAMP', day || 'T' || clock || 'Z', '2026-01-31T09:00:00Z'),
    ('DATETIME', day || '[T ]' || clock, '2026-01-31T09:00:00'),
    ('DATE', day, '2026-01-31'),
    ('INT64', '-?\d+', '12345'),
    ('STRING', '.*', 'text')) AS f (type, form, example)
  WHERE f.type = produce_watermark_text.type;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'produce_watermark_set: % is no watermark type', coalesce(type, 'NULL')
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Give TIMESTAMP, DATETIME, DATE, INT64 or STRING, as twinbox.produce.watermark-type says.';
  END IF;
  BEGIN
    IF value IS NULL OR value !~ ('^' || form || '$') THEN
      RAISE invalid_parameter_value;
    END IF;
    PERFORM produce_watermark_not_above(type, value, value);
  EXCEPTION
    WHEN data_exception THEN
      RAISE EXCEPTION 'produce_watermark_set: % is no %', coalesce(quote_literal(value), 'NULL'), type
        USING ERRCODE = 'invalid_parameter_value', HINT = format('Write it as %s.', example);
  END;
  IF type IN ('TIMESTAMP', 'DATETIME', 'DATE') AND CAST(value AS timestamptz) > now() + interval '1 day' THEN
    RAISE EXCEPTION 'produce_watermark_set: % lies ahead; everything up to it would never be read', value
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  RETURN CASE WHEN type = 'DATETIME' THEN replace(value, ' ', 'T') ELSE value END;
END
$$;

COMMENT ON FUNCTION produce_watermark_text(text, text) IS
  'A watermark as produce reads it; raises when the value is none of the type.';

CREATE FUNCTION produce_watermark_set(
  topic text, source text, type text, value text, who text, reason text)
RETURNS TABLE (old_value text, new_value text, epoch bigint)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
DECLARE
  known produce_watermark;
BEGIN
  PERFORM twinbox_check_repair('produce_watermark_set', reason);
  IF topic IS NULL OR btrim(topic) = '' OR source IS NULL OR btrim(source) = '' THEN
    RAISE EXCEPTION 'produce_watermark_set: topic or source is missing'
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Give TOPIC_NAME and TWINBOX_SOURCE as the process has them.';
  END IF;
  new_value := produce_watermark_text(type, value);
  -- A run that moves the watermark at the same time is waited for, and is then told by the epoch.
  SELECT *
  INTO known
  FROM produce_watermark AS w
  WHERE w.topic_name = topic
    AND w.source = source
  FOR UPDATE;
  old_value := known.value;
  INSERT INTO produce_watermark AS w (topic_name, source, type, value, epoch)
  VALUES (topic, source, type, new_value, 1)
  ON CONFLICT ON CONSTRAINT produce_watermark_pkey
  DO UPDATE SET type = excluded.type, value = excluded.value, epoch = w.epoch + 1, run_id = NULL, updated_at = now()
  RETURNING w.epoch
  INTO epoch;
  PERFORM twinbox_audit_add(who, 'produce_watermark_set', topic, NULL, reason, 1,
    jsonb_build_object('source', source, 'type', type, 'value', new_value,
                       'old_type', known.type, 'old_value', known.value, 'epoch', epoch));
  RETURN NEXT;
END
$$;

COMMENT ON FUNCTION produce_watermark_set(text, text, text, text, text, text) IS
  'Sets how far a source counts as read, back or ahead, and writes who and why into twinbox_audit. The next run begins there, less the lookback. A run in flight does not overwrite it (epoch). Set back, rows that are known are not sent again; set ahead, rows in between are never read. Errors: no reason; no topic or source; a type or value that produce could not read.';

CREATE VIEW produce_watermark_status AS
SELECT w.topic_name,
       w.source,
       w.type,
       w.value,
       w.epoch,
       w.updated_at,
       -- NULL after an operator's set, until a run moves it.
       w.run_id AS moved_by_run,
       a.at AS set_at,
       a.who AS set_by,
       a.reason AS set_reason,
       r.state AS last_run_state,
       r.started_at AS last_run_started_at,
       r.finished_at AS last_run_finished_at,
       r.error AS last_run_error,
       produce_bytes_today(w.topic_name, w.source) AS bytes_today
FROM produce_watermark AS w
LEFT JOIN LATERAL (
  SELECT u.at, u.who, u.reason
  FROM twinbox_audit AS u
  WHERE u.action = 'produce_watermark_set'
    AND u.topic_name = w.topic_name
    AND u.detail ->> 'source' = w.source
  ORDER BY u.id DESC
  LIMIT 1) AS a ON true
LEFT JOIN LATERAL (
  SELECT n.state, n.started_at, n.finished_at, n.error
  FROM produce_run AS n
  WHERE n.topic_name = w.topic_name
    AND n.source = w.source
    AND n.backfill IS NULL
  ORDER BY n.started_at DESC
  LIMIT 1) AS r ON true;

COMMENT ON VIEW produce_watermark_status IS
  'How far each source was read, who set it last and why, and how the last regular run ended.';

-- Backfill: a window of a source read again in steps, beside the regular runs ------------------------------------------------

CREATE TABLE produce_backfill (
  topic_name  text COLLATE "C" NOT NULL,
  source      text COLLATE "C" NOT NULL,
  name        text COLLATE "C" NOT NULL,
  -- As of the watermark: BigQuery's type, and exact texts in its notation.
  type        text NOT NULL,
  from_value  text NOT NULL,
  until_value text NOT NULL,
  -- As the operator wrote it; empty for one step.
  step        text NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT produce_backfill_pkey PRIMARY KEY (topic_name, source, name),
  CONSTRAINT produce_backfill_type_known CHECK (type IN ('TIMESTAMP', 'DATETIME', 'DATE', 'INT64', 'STRING'))
);

COMMENT ON TABLE produce_backfill IS
  'A window of a source that was asked for, by its name; its steps are in produce_backfill_step.';

CREATE TABLE produce_backfill_step (
  topic_name    text COLLATE "C" NOT NULL,
  source        text COLLATE "C" NOT NULL,
  name          text COLLATE "C" NOT NULL,
  number        int NOT NULL,
  -- From this watermark on, up to and without that one.
  from_value    text NOT NULL,
  until_value   text NOT NULL,
  -- Of the process that works on it. A claim that is not renewed ends by itself, so a dead process holds up nothing.
  claim_token   text,
  claimed_until timestamptz,
  attempts      int NOT NULL DEFAULT 0,
  -- All its rows are committed.
  done_at       timestamptz,
  run_id        text,
  rows_read     bigint,
  rows_queued   bigint,
  rows_changed  bigint,
  rows_revived  bigint,
  rows_rejected bigint,
  bytes_billed  bigint,
  CONSTRAINT produce_backfill_step_pkey PRIMARY KEY (topic_name, source, name, number),
  CONSTRAINT produce_backfill_step_backfill_exists FOREIGN KEY (topic_name, source, name)
    REFERENCES produce_backfill ON DELETE CASCADE
) WITH (fillfactor = 70);

COMMENT ON TABLE produce_backfill_step IS
  'The steps of a backfill: claimed by one process at a time, done when all rows are committed. rows_read is the step''s last run; the other counts are sums over its runs, also over those that were killed. Bytes count the estimate of a run whose end was not seen.';

CREATE FUNCTION produce_backfill_begin(
  topic text, source text, name text, type text, step text, bounds text[])
RETURNS produce_backfill
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
DECLARE
  known produce_backfill;
BEGIN
  -- Of two processes that begin it at the same time the second waits here, and finds the first one's steps.
  INSERT INTO produce_backfill (topic_name, source, name, type, from_value, until_value, step)
  VALUES (topic, source, name, type, bounds[1], bounds[array_upper(bounds, 1)], step)
  ON CONFLICT ON CONSTRAINT produce_backfill_pkey DO NOTHING;
  IF FOUND THEN
    INSERT INTO produce_backfill_step (topic_name, source, name, number, from_value, until_value)
    SELECT topic, source, name, n, bounds[n], bounds[n + 1]
    FROM generate_series(1, array_upper(bounds, 1) - 1) AS n;
  END IF;
  SELECT b.*
  INTO known
  FROM produce_backfill AS b
  WHERE b.topic_name = topic
    AND b.source = source
    AND b.name = name;
  RETURN known;
END
$$;

COMMENT ON FUNCTION produce_backfill_begin(text, text, text, text, text, text[]) IS
  'Enters a backfill with its steps, from each of bounds to the next, or finds the one of this name as it stands.';

CREATE VIEW produce_backfill_status AS
SELECT b.topic_name,
       b.source,
       b.name,
       b.type,
       b.from_value,
       b.until_value,
       b.step,
       b.created_at,
       s.steps,
       s.steps_done,
       s.steps_claimed,
       round(CAST(s.steps_done AS numeric) / s.steps, 4) AS share_done,
       CASE WHEN s.steps_done = s.steps THEN s.last_done_at END AS finished_at,
       s.rows_read + r.rows_read AS rows_read,
       s.rows_queued + r.rows_queued AS rows_queued,
       s.rows_changed + r.rows_changed AS rows_changed,
       s.rows_revived + r.rows_revived AS rows_revived,
       s.rows_rejected + r.rows_rejected AS rows_rejected,
       s.bytes_billed + r.bytes_billed AS bytes_billed
FROM produce_backfill AS b
CROSS JOIN LATERAL (
  SELECT count(*) AS steps,
         count(n.done_at) AS steps_done,
         count(*) FILTER (WHERE n.done_at IS NULL AND n.claimed_until > clock_timestamp()) AS steps_claimed,
         max(n.done_at) AS last_done_at,
         coalesce(CAST(sum(n.rows_read) AS bigint), 0) AS rows_read,
         coalesce(CAST(sum(n.rows_queued) AS bigint), 0) AS rows_queued,
         coalesce(CAST(sum(n.rows_changed) AS bigint), 0) AS rows_changed,
         coalesce(CAST(sum(n.rows_revived) AS bigint), 0) AS rows_revived,
         coalesce(CAST(sum(n.rows_rejected) AS bigint), 0) AS rows_rejected,
         coalesce(CAST(sum(n.bytes_billed) AS bigint), 0) AS bytes_billed
  FROM produce_backfill_step AS n
  WHERE n.topic_name = b.topic_name
    AND n.source = b.source
    AND n.name = b.name) AS s
CROSS JOIN LATERAL (
  -- What steps that are not done have done and cost so far; read is what their newest run has read.
  SELECT coalesce(CAST(sum(coalesce(u.bytes_billed, u.bytes_estimated)) AS bigint), 0) AS bytes_billed,
         coalesce(CAST(sum(u.rows_read) FILTER (WHERE u.newest = 1) AS bigint), 0) AS rows_read,
         coalesce(CAST(sum(u.rows_queued) AS bigint), 0) AS rows_queued,
         coalesce(CAST(sum(u.rows_changed) AS bigint), 0) AS rows_changed,
         coalesce(CAST(sum(u.rows_revived) AS bigint), 0) AS rows_revived,
         coalesce(CAST(sum(u.rows_rejected) AS bigint), 0) AS rows_rejected
  FROM produce_backfill_step AS n
  CROSS JOIN LATERAL (
    SELECT p.*, row_number() OVER (ORDER BY p.started_at DESC, p.run_id) AS newest
    FROM produce_run AS p
    WHERE p.topic_name = n.topic_name
      AND p.source = n.source
      AND p.backfill = n.name
      AND p.backfill_step = n.number) AS u
  WHERE n.topic_name = b.topic_name
    AND n.source = b.source
    AND n.name = b.name
    AND n.done_at IS NULL) AS r;

COMMENT ON VIEW produce_backfill_status IS
  'How far each backfill is: steps, rows, and what it was billed so far.';
