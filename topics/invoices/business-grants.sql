-- What the handler may do with the consumer's own tables. Run by their owner, with psql, for the consumer's database user:
--   psql "$OWNER_URL" -v ON_ERROR_STOP=1 -v consumer="invoices-consume@my-project.iam" -f topics/invoices/business-grants.sql
GRANT INSERT ON ledger_entry TO :"consumer";
GRANT SELECT, INSERT, UPDATE ON customer_balance TO :"consumer";
