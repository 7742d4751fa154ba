-- Whether this database has anything of the consumer at all. Runs at the start of a reconciliation.
SELECT EXISTS (SELECT FROM transactional_inbox AS i WHERE i.consumer = :consumer)
    OR EXISTS (SELECT FROM transactional_inbox_dead_letter AS l WHERE l.consumer = :consumer) AS known
