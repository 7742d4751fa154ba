-- Commits by itself.
INSERT INTO ledger (invoice_id)
VALUES (:#${body[invoice_id]});
COMMIT;
BEGIN;
