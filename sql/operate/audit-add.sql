-- Writes down what an operator did that changes no row: pause, resume, a run of the retention. Runs when an operator asks.
SELECT twinbox_check_repair(CAST(:action AS text), CAST(:reason AS text)),
       twinbox_audit_add(CAST(:who AS text), CAST(:action AS text), CAST(:topic AS text), CAST(:consumer AS text),
                         CAST(:reason AS text), CAST(:rows AS bigint), jsonb_build_object('pod', CAST(:pod AS text)))
