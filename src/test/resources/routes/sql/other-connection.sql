-- Leaves the transaction in other ways.
SELECT dblink_exec('host', 'INSERT');
SELECT pg_advisory_lock(1);
DELETE FROM public.transactional_inbox
WHERE consumer = :#${exchangeProperty.consumer};
DO $$ BEGIN NULL; END $$;
