-- Takes a pod's claims away from it. Runs when an operator asks.
SELECT outbox_release(CAST(:topic AS text), CAST(:pod AS text), CAST(:reason AS text), who => CAST(:who AS text)) AS released
