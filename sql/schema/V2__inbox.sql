-- The inbox: which messages have taken effect in this database, and those that cannot.

CREATE TABLE transactional_inbox (
  -- Compared by their bytes: a unique index in a language's order breaks silently when the C library changes that
  -- order, and a duplicate would take effect.
  consumer        text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  created_at      timestamptz NOT NULL DEFAULT now(),
  -- The primary key is the promise "takes effect once": the second transaction waits for the first, then sees it.
  CONSTRAINT transactional_inbox_pkey PRIMARY KEY (consumer, idempotency_key),
  CONSTRAINT transactional_inbox_consumer_valid CHECK (octet_length(consumer) BETWEEN 1 AND 255),
  CONSTRAINT transactional_inbox_key_valid CHECK (octet_length(idempotency_key) BETWEEN 1 AND 512)
) WITH (
  -- Append-only and kept for ever: caches get evicted, ledgers do not.
  autovacuum_vacuum_insert_scale_factor = 0.05
);

-- Reconciliation looks for a span of time. The table grows in the order of created_at, so a few bytes per megabyte do.
CREATE INDEX transactional_inbox_by_time
  ON transactional_inbox USING brin (created_at)
  WITH (pages_per_range = 32, autosummarize = on);

COMMENT ON TABLE transactional_inbox IS
  'One row per message that took effect, written in the transaction of the effect. Deleting a row lets its message take effect again.';

-- Failures of handlers, counted after the rollback, so in a transaction of their own; forgotten on success.
CREATE TABLE transactional_inbox_failure (
  consumer        text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  attempts        int NOT NULL DEFAULT 1,
  last_error      text NOT NULL,
  first_failed_at timestamptz NOT NULL DEFAULT now(),
  last_failed_at  timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT transactional_inbox_failure_pkey PRIMARY KEY (consumer, idempotency_key)
) WITH (
  -- A small table of which every row is deleted again.
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 1000
);

COMMENT ON TABLE transactional_inbox_failure IS
  'How often a message''s handler has failed so far, over all pods.';

CREATE TABLE transactional_inbox_dead_letter (
  id              bigint GENERATED ALWAYS AS IDENTITY,
  consumer        text COLLATE "C" NOT NULL,
  -- NULL when the message had no usable key.
  idempotency_key text,
  message_id      text NOT NULL,
  payload         bytea NOT NULL,
  -- json, not jsonb: it keeps the text, so an attribute with a NUL (which jsonb refuses) is kept too.
  attributes      json NOT NULL,
  reason          text NOT NULL,
  attempts        int NOT NULL,
  published_at    timestamptz,
  first_dead_at   timestamptz NOT NULL DEFAULT now(),
  last_dead_at    timestamptz NOT NULL DEFAULT now(),
  -- What makes a redelivered dead letter the same one: its key, or, without one, Pub/Sub's message id.
  letter_key      text COLLATE "C" NOT NULL GENERATED ALWAYS AS (coalesce('key:' || idempotency_key, 'message:' || message_id)) STORED,
  CONSTRAINT transactional_inbox_dead_letter_pkey PRIMARY KEY (id),
  CONSTRAINT transactional_inbox_dead_letter_once UNIQUE (consumer, letter_key)
);

COMMENT ON TABLE transactional_inbox_dead_letter IS
  'Messages that could not take effect, stored whole, then acknowledged. They hold no inbox key: a replay runs them through the inbox like any other.';

-- Whether no twin of a message has taken effect. Waits for a twin that is at it, and keeps the key until the end of the
-- transaction: who decides to give a message up must know how its twin ended, and no other may begin meanwhile. Only an
-- insert waits for a key that is not committed yet; the row is gone again before anybody can see it.
CREATE FUNCTION inbox_key_is_free(its_consumer text, its_key text)
RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
  INSERT INTO transactional_inbox (consumer, idempotency_key)
  VALUES (its_consumer, its_key)
  ON CONFLICT ON CONSTRAINT transactional_inbox_pkey DO NOTHING;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  DELETE FROM transactional_inbox
  WHERE consumer = its_consumer
    AND idempotency_key = its_key;
  RETURN true;
END
$$;

COMMENT ON FUNCTION inbox_key_is_free(text, text) IS
  'Whether no message with this key has taken effect; waits for one that is being processed and holds the key until the transaction ends.';
