-- Locks the letter in the transaction of its replay; fails when the claim is lost. Runs first in replay-letter.
SELECT inbox_replay_begin(CAST(:#${exchangeProperty.replayId} AS bigint), CAST(:#${exchangeProperty.replayToken} AS uuid))
