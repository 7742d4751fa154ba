-- Writes the ledger row of one invoice; runs in the consumer's transaction.
INSERT INTO ledger (invoice_id, amount)
VALUES (CAST(:#${body[invoice_id]} AS uuid), CAST(:#${body[amount]} AS numeric))
