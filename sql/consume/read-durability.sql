-- What the consumer's promise rests on, as a pooled connection sees it. Runs once, before consume starts.
SELECT current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit,
       EXISTS (
         SELECT
         FROM pg_constraint AS c
         WHERE c.conrelid = CAST('transactional_inbox' AS regclass)
           AND c.contype IN ('p', 'u')
           AND c.convalidated
           AND (SELECT array_agg(a.attname ORDER BY a.attname)
                FROM pg_attribute AS a
                WHERE a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey)) = CAST('{consumer,idempotency_key}' AS name[])
       ) AS inbox_key
