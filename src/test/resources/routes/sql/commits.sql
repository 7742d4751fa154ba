-- Commits by itself.
INSERT INTO ledger (invoice_id)
VALUES (:#invoice_id);
COMMIT;
BEGIN;
