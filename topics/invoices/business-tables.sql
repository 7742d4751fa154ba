-- The consumer's own tables, which the handler writes. In production they belong to the consumer's migrations.
CREATE TABLE IF NOT EXISTS ledger_entry (
  entry_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- No unique constraint: the inbox is what keeps an event from being posted twice, and the tests must be able to see it fail.
  event_id    text NOT NULL,
  invoice_id  text NOT NULL,
  customer_id text NOT NULL,
  event_type  text NOT NULL,
  total       numeric(38, 9) NOT NULL,
  posting     numeric(38, 9) NOT NULL,
  occurred_at timestamptz NOT NULL
);

CREATE TABLE IF NOT EXISTS customer_balance (
  customer_id text PRIMARY KEY,
  balance     numeric(38, 9) NOT NULL,
  entries     int NOT NULL
);
