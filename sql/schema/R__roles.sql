-- What each Twinbox role may do: nothing beyond what its route set's statements need. Flyway runs this file again whenever it
-- has changed, after the numbered migrations; a migration that adds a table or a function adds its rights here.
--
-- Every process also reads the figures for its metrics (sql/operate/sample-*.sql).
--
-- The roles themselves are the server's, not the database's, so an administrator makes them (sql/roles/create-roles.sql,
-- docs/adr/0009-roles.md). Roles that are not there are left out; twinbox_grant_roles() gives them their rights later.

-- Functions that act for whoever may call them, with the owner's rights. Their search path is fixed and ends with pg_temp:
-- a caller's temporary table of the same name is never found before ours.
DO $$
DECLARE
  routine record;
BEGIN
  FOR routine IN
    SELECT p.oid::regprocedure AS name
    FROM pg_proc AS p
    WHERE p.pronamespace = CAST(current_schema() AS regnamespace)
      AND p.proname IN (
        -- Enqueueing: who may call outbox_put needs no right on a table. The triggers keep the queue for everybody.
        'outbox_put', 'pubsub_outbox_queue', 'pubsub_outbox_keep_queued',
        -- Takes back the key that it has just inserted; consume may delete no other.
        'inbox_key_is_free',
        -- Repair: an operator can do nothing that is not written into twinbox_audit.
        'outbox_replay', 'outbox_replay_ids', 'outbox_discard', 'outbox_discard_ids', 'outbox_republish', 'outbox_republish_ids',
        'outbox_release', 'twinbox_audit_add',
        'inbox_replay', 'inbox_replay_ids', 'inbox_discard_ids', 'inbox_assign_key', 'produce_watermark_set')
  LOOP
    EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', routine.name);
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', routine.name, current_schema());
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
      "CALL outbox_put"
    ],
    "twinbox_produce": [
      "SELECT ON pubsub_outbox_backlog",
      "SELECT ON pubsub_outbox, pubsub_outbox_due, pubsub_outbox_published, pubsub_outbox_discarded",
      "INSERT (id, topic_name, source, payload, attributes, ordering_key) ON pubsub_outbox",
      "UPDATE (payload, attributes) ON pubsub_outbox",
      "UPDATE (dead_at, attempts, crashes, solo, payload_bytes, next_retry_at) ON pubsub_outbox_due",
      "SELECT, INSERT, UPDATE ON produce_watermark, produce_reject, produce_changed",
      "SELECT, INSERT, UPDATE, DELETE ON produce_run",
      "SELECT, INSERT ON produce_backfill",
      "SELECT, INSERT, UPDATE ON produce_backfill_step",
      "SELECT ON produce_backfill_status",
      "CALL produce_watermark_not_above, produce_bytes_today, produce_run_begin, produce_backfill_begin"
    ],
    "twinbox_dispatch": [
      "SELECT ON pubsub_outbox_backlog, produce_watermark, produce_run, produce_backfill_status",
      "SELECT (topic_name, source) ON produce_reject",
      "CALL produce_bytes_today",
      "SELECT ON pubsub_outbox, pubsub_outbox_due, pubsub_outbox_published",
      "UPDATE (lock_id, claim_token, locked_at, next_retry_at, attempts, claims, solo, crashes, last_error, dead_at) ON pubsub_outbox_due",
      "DELETE ON pubsub_outbox_due",
      "INSERT, UPDATE (completed_at, message_id) ON pubsub_outbox_published"
    ],
    "twinbox_consume": [
      "SELECT ON pubsub_outbox_backlog, produce_watermark, produce_run, produce_backfill_status",
      "SELECT (topic_name, source) ON produce_reject",
      "CALL produce_bytes_today",
      "SELECT, INSERT ON transactional_inbox",
      "SELECT, INSERT, UPDATE, DELETE ON transactional_inbox_failure",
      "SELECT, INSERT, UPDATE ON transactional_inbox_dead_letter, transactional_inbox_server",
      "CALL inbox_key_is_free, inbox_replay_begin, inbox_replay_end"
    ],
    "twinbox_maintain": [
      "SELECT ON pubsub_outbox_backlog, produce_watermark, produce_run, produce_backfill_status",
      "SELECT (topic_name, source) ON produce_reject",
      "CALL produce_bytes_today",
      "SELECT, DELETE ON pubsub_outbox",
      "UPDATE (payload_hash) ON pubsub_outbox",
      "SELECT ON pubsub_outbox_due, pubsub_outbox_published, pubsub_outbox_discarded"
    ],
    "twinbox_operate": [
      "SELECT ON pubsub_outbox, pubsub_outbox_due, pubsub_outbox_published, pubsub_outbox_discarded, pubsub_outbox_status, pubsub_outbox_backlog",
      "SELECT ON transactional_inbox, transactional_inbox_failure, transactional_inbox_dead_letter, transactional_inbox_server",
      "SELECT ON produce_watermark, produce_watermark_status, produce_reject, produce_changed, produce_run, produce_backfill, produce_backfill_step, produce_backfill_status, twinbox_audit",
      "CALL outbox_dead, outbox_states, inbox_dead, produce_bytes_today",
      "CALL outbox_replay, outbox_replay_ids, outbox_discard, outbox_discard_ids, outbox_republish, outbox_republish_ids, outbox_release, twinbox_audit_add",
      "CALL inbox_replay, inbox_replay_ids, inbox_discard_ids, inbox_assign_key",
      "CALL produce_watermark_set"
    ],
    "twinbox_read": [
      "SELECT ON pubsub_outbox_status, pubsub_outbox_backlog, produce_watermark_status, produce_backfill_status, produce_run, twinbox_audit",
      "SELECT (consumer, attempts, first_failed_at, last_failed_at) ON transactional_inbox_failure",
      "SELECT (id, consumer, reason, attempts, published_at, first_dead_at, last_dead_at, closed_at, closed_as, replay_requested_at) ON transactional_inbox_dead_letter",
      "CALL produce_bytes_today"
    ]
  }$rights$;
  role_name text;
  granted   text;
  called    text;
  routine   text;
  found_one boolean;
BEGIN
  FOR role_name IN SELECT r.rolname FROM pg_roles AS r WHERE rights ? CAST(r.rolname AS text) ORDER BY r.rolname LOOP
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), role_name);
    -- Which migrations have run: a process that does not migrate itself waits for those it needs.
    EXECUTE format('GRANT SELECT ON %I TO %I', '${flyway:table}', role_name);
    FOR granted IN SELECT g.value FROM jsonb_array_elements_text(rights -> role_name) AS g LOOP
      IF granted NOT LIKE 'CALL %' THEN
        EXECUTE format('GRANT %s TO %I', granted, role_name);
        CONTINUE;
      END IF;
      -- All functions of a name: parameters may be added, and a right must not depend on their list.
      FOREACH called IN ARRAY string_to_array(substr(granted, 6), ', ') LOOP
        found_one := false;
        FOR routine IN
          SELECT CAST(p.oid::regprocedure AS text)
          FROM pg_proc AS p
          WHERE p.pronamespace = CAST(current_schema() AS regnamespace)
            AND p.proname = called
        LOOP
          EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', routine, role_name);
          found_one := true;
        END LOOP;
        IF NOT found_one THEN
          RAISE EXCEPTION 'twinbox_grant_roles: % is to call %, which is not there', role_name, called;
        END IF;
      END LOOP;
    END LOOP;
    RETURN NEXT role_name;
  END LOOP;
END
$grant_roles$;

COMMENT ON FUNCTION twinbox_grant_roles() IS
  'Gives the Twinbox roles that exist on this server their rights in this database, and returns their names. Run by the owner of the tables, as often as wanted.';

REVOKE EXECUTE ON FUNCTION twinbox_grant_roles() FROM PUBLIC;

SELECT twinbox_grant_roles();
