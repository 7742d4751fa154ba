-- Says what it is for; # and ? in a comment line are harmless, as is COMMIT.
WITH due AS (
  SELECT id
  FROM t
  WHERE id IN (:#in:${body[ids]})
    AND note = 'really? COMMIT; -- no'
  FOR UPDATE
)
UPDATE t
SET state = CASE WHEN state = 1 THEN 2 ELSE 3 END
FROM due
WHERE due.id = t.id
