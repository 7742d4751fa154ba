-- What each Twinbox role may do: nothing beyond what its route set's statements need. Flyway runs this file again whenever it
-- has changed, after the numbered migrations; a migration that adds a table or a function adds its rights here.
--
-- The roles themselves are the server's, not the database's, so an administrator makes them (sql/roles/create-roles.sql,
-- docs/adr/0008-roles.md). Roles that are not there are left out; twinbox_grant_roles() gives them their rights later.

-- Functions that act for whoever may call them, with the owner's rights. Their search path is fixed and ends with pg_temp:
-- a caller's temporary table of the same name is never found before ours.
DO $$
DECLARE
  function_name text;
BEGIN
  FOREACH function_name IN ARRAY ARRAY[
    -- Enqueueing: who may call outbox_put needs no right on a table. The triggers keep the queue for everybody.
    'outbox_put(text, bytea, jsonb, text, text, text)',
    'outbox_put(text, text, jsonb, text, text, text)',
    'pubsub_outbox_queue()',
    'pubsub_outbox_keep_queued()',
    -- Repair: an operator can do nothing that is not written into twinbox_audit.
    'outbox_replay(text, text, text, interval, int, int, timestamptz, text)',
    'outbox_replay_ids(uuid[], text, int, text)',
    'outbox_discard(text, text, text, interval, int, text)',
    'outbox_discard_ids(uuid[], text, text)',
    'outbox_republish(text, timestamptz, timestamptz, text, int, int, timestamptz, text)',
    'outbox_republish_ids(uuid[], text, int, text)',
    'inbox_replay(text, text, text, interval, int, text)',
    'inbox_replay_ids(bigint[], text, text)',
    'inbox_discard_ids(bigint[], text, text)',
    'inbox_assign_key(bigint, text, text, text)',
    'produce_watermark_set(text, text, text, text, text, text)']
  LOOP
    EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', function_name);
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', function_name, current_schema());
  END LOOP;
END
$$;

-- PostgreSQL lets everybody call a new function. Not here: only whom the next function names. The exceptions compute and read
-- no table; a plain INSERT INTO pubsub_outbox needs them.
DO $$
DECLARE
  routine record;
BEGIN
  FOR routine IN
    SELECT p.oid::regprocedure AS name
    FROM pg_proc AS p
    WHERE p.pronamespace = CAST(current_schema() AS regnamespace)
      AND p.proname ~ '^(outbox|inbox|produce|twinbox|pubsub_outbox)_'
      AND p.provolatile <> 'i'
      AND p.proname <> 'outbox_new_id'
  LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', routine.name);
  END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION twinbox_grant_roles()
RETURNS SETOF text
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $grant_roles$
DECLARE
  rights CONSTANT jsonb := $rights$
  {
    "twinbox_emit": [
      "EXECUTE ON FUNCTION outbox_put(text, bytea, jsonb, text, text, text), outbox_put(text, text, jsonb, text, text, text)"
    ],
    "twinbox_produce": [
      "SELECT ON pubsub_outbox, pubsub_outbox_due, pubsub_outbox_published, pubsub_outbox_discarded",
      "INSERT (id, topic_name, source, payload, attributes, ordering_key) ON pubsub_outbox",
      "UPDATE (payload, attributes) ON pubsub_outbox",
      "UPDATE (dead_at, attempts, crashes, solo, payload_bytes, next_retry_at) ON pubsub_outbox_due",
      "SELECT, INSERT, UPDATE ON produce_watermark, produce_reject, produce_changed",
      "SELECT, INSERT, UPDATE, DELETE ON produce_run",
      "EXECUTE ON FUNCTION produce_watermark_not_above(text, text, text), produce_bytes_today(text, text), produce_run_begin(text, text, text, bigint, text, bigint)"
    ],
    "twinbox_dispatch": [
      "SELECT ON pubsub_outbox, pubsub_outbox_due, pubsub_outbox_published",
      "UPDATE (lock_id, claim_token, locked_at, next_retry_at, attempts, claims, solo, crashes, last_error, dead_at) ON pubsub_outbox_due",
      "DELETE ON pubsub_outbox_due",
      "INSERT, UPDATE (completed_at, message_id) ON pubsub_outbox_published"
    ],
    "twinbox_consume": [
      "SELECT, INSERT ON transactional_inbox",
      "SELECT, INSERT, UPDATE, DELETE ON transactional_inbox_failure",
      "SELECT, INSERT, UPDATE ON transactional_inbox_dead_letter, transactional_inbox_server",
      "EXECUTE ON FUNCTION inbox_replay_begin(bigint, uuid), inbox_replay_end(bigint, uuid, boolean)"
    ],
    "twinbox_maintain": [
      "SELECT, DELETE ON pubsub_outbox",
      "UPDATE (payload_hash) ON pubsub_outbox",
      "SELECT ON pubsub_outbox_due, pubsub_outbox_published, pubsub_outbox_discarded"
    ],
    "twinbox_operate": [
      "SELECT ON pubsub_outbox, pubsub_outbox_due, pubsub_outbox_published, pubsub_outbox_discarded, pubsub_outbox_status, pubsub_outbox_backlog",
      "SELECT ON transactional_inbox, transactional_inbox_failure, transactional_inbox_dead_letter, transactional_inbox_server",
      "SELECT ON produce_watermark, produce_watermark_status, produce_reject, produce_changed, produce_run, twinbox_audit",
      "EXECUTE ON FUNCTION outbox_dead(text, text, interval, int), outbox_states(uuid[]), inbox_dead(text, text, interval, int), produce_bytes_today(text, text)",
      "EXECUTE ON FUNCTION outbox_replay(text, text, text, interval, int, int, timestamptz, text), outbox_replay_ids(uuid[], text, int, text), outbox_discard(text, text, text, interval, int, text), outbox_discard_ids(uuid[], text, text), outbox_republish(text, timestamptz, timestamptz, text, int, int, timestamptz, text), outbox_republish_ids(uuid[], text, int, text)",
      "EXECUTE ON FUNCTION inbox_replay(text, text, text, interval, int, text), inbox_replay_ids(bigint[], text, text), inbox_discard_ids(bigint[], text, text), inbox_assign_key(bigint, text, text, text)",
      "EXECUTE ON FUNCTION produce_watermark_set(text, text, text, text, text, text)"
    ],
    "twinbox_read": [
      "SELECT ON pubsub_outbox_status, pubsub_outbox_backlog, produce_watermark_status, produce_run, twinbox_audit",
      "SELECT (consumer, attempts, first_failed_at, last_failed_at) ON transactional_inbox_failure",
      "SELECT (id, consumer, reason, attempts, published_at, first_dead_at, last_dead_at, closed_at, closed_as, replay_requested_at) ON transactional_inbox_dead_letter",
      "EXECUTE ON FUNCTION produce_bytes_today(text, text)"
    ]
  }$rights$;
  role_name text;
  granted   text;
BEGIN
  FOR role_name IN SELECT r.rolname FROM pg_roles AS r WHERE rights ? CAST(r.rolname AS text) ORDER BY r.rolname LOOP
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), role_name);
    -- Which migrations have run: a process that does not migrate itself waits for those it needs.
    EXECUTE format('GRANT SELECT ON %I TO %I', '${flyway:table}', role_name);
    FOR granted IN SELECT g.value FROM jsonb_array_elements_text(rights -> role_name) AS g LOOP
      EXECUTE format('GRANT %s TO %I', granted, role_name);
    END LOOP;
    RETURN NEXT role_name;
  END LOOP;
END
$grant_roles$;

COMMENT ON FUNCTION twinbox_grant_roles() IS
  'Gives the Twinbox roles that exist on this server their rights in this database, and returns their names. Run by the owner of the tables, as often as wanted.';

REVOKE EXECUTE ON FUNCTION twinbox_grant_roles() FROM PUBLIC;

SELECT twinbox_grant_roles();
