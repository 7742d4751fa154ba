-- Closes the letter in the transaction of its effect. Runs last in replay-letter.
SELECT inbox_replay_end(CAST(:#${exchangeProperty.replayId} AS bigint), CAST(:#${exchangeProperty.replayToken} AS uuid),
                        CAST(:#${exchangeProperty.CamelDuplicateMessage} AS boolean))
