-- Which of these events produce has refused, and why. Runs for events that the outbox does not have.
SELECT u.line, (SELECT j.reason
                FROM produce_reject AS j
                WHERE j.topic_name = coalesce(u.topic_name, CAST(:topic AS text))
                  AND j.source = :source
                  AND left(j.event_key, 200) = left(u.event_key, 200)
                  AND j.event_key = u.event_key
                ORDER BY j.last_seen_at DESC
                LIMIT 1) AS reason
FROM unnest(CAST(:eventKeys AS text[]), CAST(:topics AS text[])) WITH ORDINALITY AS u (event_key, topic_name, line)
ORDER BY u.line
