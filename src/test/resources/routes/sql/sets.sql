-- Turns durability off.
SET synchronous_commit = off;
SELECT set_config('synchronous_commit', 'off', false);
