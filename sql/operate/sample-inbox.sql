-- Open dead letters and failing messages of one consumer, for metrics and JMX. Runs every sample interval; counts 100,000 at most.
SELECT (SELECT count(*)
        FROM (SELECT FROM transactional_inbox_dead_letter
              WHERE consumer = :consumer
                AND closed_at IS NULL
              LIMIT 100000) AS counted) AS dead,
       (SELECT count(*)
        FROM (SELECT FROM transactional_inbox_failure
              WHERE consumer = :consumer
              LIMIT 100000) AS counted) AS failing,
       (SELECT reason
        FROM transactional_inbox_dead_letter
        WHERE consumer = :consumer
          AND closed_at IS NULL
        ORDER BY last_dead_at DESC
        LIMIT 1) AS last_error
