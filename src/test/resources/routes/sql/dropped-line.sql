-- A literal over several lines.
INSERT INTO notes (text)
VALUES ('first

-- third')
