-- Makes the Twinbox roles of this server. Run by an administrator, with psql, on Twinbox's database; as often as wanted:
--   psql "$ADMIN_URL" -v ON_ERROR_STOP=1 -f sql/roles/create-roles.sql
-- The roles cannot log in: a user of its own per process is made a member of one (docs/roles.md). What each may do is in
-- sql/schema/R__roles.sql; run before the first migration or after, the rights are given either way.
DO $$
DECLARE
  role_name text;
BEGIN
  FOREACH role_name IN ARRAY ARRAY['twinbox_emit', 'twinbox_produce', 'twinbox_dispatch', 'twinbox_consume',
                                   'twinbox_maintain', 'twinbox_operate', 'twinbox_read']
  LOOP
    IF NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = role_name) THEN
      EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
    END IF;
  END LOOP;
END
$$;

-- Before PostgreSQL 15 everybody may create tables and functions in the schema public.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;

-- The migrations may have run before.
DO $$
BEGIN
  IF to_regprocedure('twinbox_grant_roles()') IS NULL THEN
    RAISE NOTICE 'The roles get their rights when the migrations run.';
  ELSIF has_function_privilege('twinbox_grant_roles()', 'EXECUTE') THEN
    PERFORM twinbox_grant_roles();
  ELSE
    RAISE EXCEPTION 'The roles are made, but % does not own the tables and cannot give them their rights.', current_user
      USING HINT = 'Run SELECT twinbox_grant_roles() as the user that migrates.';
  END IF;
END
$$;
