-- Which server the consumer's commits were made on; a change means that acknowledged commits may be missing.

CREATE TABLE transactional_inbox_server (
  only_one          boolean NOT NULL DEFAULT true,
  system_identifier text NOT NULL,
  timeline_id       int NOT NULL,
  seen_at           timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT transactional_inbox_server_pkey PRIMARY KEY (only_one),
  CONSTRAINT transactional_inbox_server_only_one CHECK (only_one)
);

COMMENT ON TABLE transactional_inbox_server IS
  'The server (system identifier and timeline) seen last. When it changes, consume logs an error that names the runbook.';
