-- Adds the customer of an attribute, or of a field: nobody can say.
INSERT INTO ledger (customer)
VALUES (:#customer)
