SELECT payload #>> '{a}'
FROM invoices
WHERE note = 'item#1' -- a note
AND payload ? 'b'
AND label = ':#name'
