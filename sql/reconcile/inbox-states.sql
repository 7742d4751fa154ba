-- What a consumer knows of these events, each found by its key. A discarded letter took its key without an effect. Runs once
-- per few hundred events of a reconciliation.
SELECT k.key AS id,
       a.consumer IS NOT NULL AND l.closed_as IS DISTINCT FROM 'discarded' AS applied,
       l.id AS letter,
       l.closed_as,
       l.reason,
       l.replay_requested_at IS NOT NULL AS replay_requested,
       coalesce(f.attempts, 0) AS failures,
       f.last_error
FROM unnest(CAST(:ids AS text[])) AS k (key)
LEFT JOIN transactional_inbox AS a ON a.consumer = :consumer AND a.idempotency_key = k.key
LEFT JOIN transactional_inbox_dead_letter AS l ON l.consumer = :consumer AND l.letter_key = 'key:' || k.key
LEFT JOIN transactional_inbox_failure AS f ON f.consumer = :consumer AND f.idempotency_key = k.key
