-- Who repaired what, newest first. Runs when an operator asks.
SELECT at, who, db_user, action, topic_name, consumer, reason, rows, CAST(detail AS text) AS detail
FROM twinbox_audit
WHERE topic_name = CAST(:topic AS text)
   OR consumer = CAST(:consumer AS text)
   -- By ids of several topics or consumers.
   OR (topic_name IS NULL AND consumer IS NULL)
ORDER BY id DESC
LIMIT :maxRows
