-- Ends those of $1 that have no open batch, and folds their batches into tallies. A statement of its own after a flush has
-- committed: within two flushes that close the last two batches, neither would see the other's.
WITH final AS (
    UPDATE broadcast br
    SET state = CASE br.state WHEN 'cancelling' THEN 'cancelled' ELSE 'completed' END::broadcast_state, settled_at = now(),
        paused = false
    WHERE br.id = ANY($1::bigint[])
      AND br.state IN ('delivering', 'cancelling')
      AND NOT EXISTS (SELECT FROM batch b WHERE b.broadcast_id = br.id AND b.state <> 'done' OFFSET 0)
    RETURNING br.id
), folded AS (
    DELETE FROM batch b USING final WHERE b.broadcast_id = final.id RETURNING b.*
), tallied AS (
    INSERT INTO broadcast_tally (broadcast_id, provider_id, total, sent, dead_attempts_exhausted, dead_unregistered, dead_rejected,
                                 expired, skipped, cancelled, unconfirmed, retried)
    SELECT broadcast_id, provider_id, coalesce(sum(size) FILTER (WHERE attempt = 1), 0), sum(sent), sum(dead_attempts_exhausted),
           sum(dead_unregistered), sum(dead_rejected), sum(expired), sum(skipped), sum(cancelled), sum(unconfirmed), sum(retried)
    FROM folded
    GROUP BY broadcast_id, provider_id
)
SELECT id AS "id!: BroadcastId" FROM final
