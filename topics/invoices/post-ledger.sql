-- Posts an invoice event to the ledger. Runs once per event, in the inbox's transaction.
INSERT INTO ledger_entry (event_id, invoice_id, customer_id, event_type, total, posting, occurred_at)
SELECT e.payload ->> 'event_id',
       e.payload ->> 'invoice_id',
       e.payload ->> 'customer_id',
       e.payload ->> 'event_type',
       CAST(e.payload ->> 'total' AS numeric),
       CAST(e.payload ->> 'total' AS numeric)
         * CASE e.payload ->> 'event_type' WHEN 'issued' THEN 1 WHEN 'paid' THEN -1 ELSE 0 END,
       CAST(e.payload ->> 'updated_at' AS timestamptz)
FROM (SELECT CAST(:#${body} AS jsonb) AS payload) AS e
