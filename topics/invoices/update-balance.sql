-- Adds an invoice event's posting to the customer's balance. Runs once per event, in the inbox's transaction.
INSERT INTO customer_balance AS b (customer_id, balance, entries)
SELECT e.payload ->> 'customer_id',
       CAST(e.payload ->> 'total' AS numeric)
         * CASE e.payload ->> 'event_type' WHEN 'issued' THEN 1 WHEN 'paid' THEN -1 ELSE 0 END,
       1
FROM (SELECT CAST(:#${body} AS jsonb) AS payload) AS e
ON CONFLICT (customer_id)
DO UPDATE SET balance = b.balance + excluded.balance,
              entries = b.entries + 1
