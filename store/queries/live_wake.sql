-- Makes what waits of the broadcasts $3 due now, where a push waits for acknowledgements and all events have theirs: nothing is left
-- to wait for. $2 batches at most. With shard + 0, batches are found by their broadcast whatever the statistics say; those that
-- somebody is at are left out, and due in their time.
WITH waiting AS MATERIALIZED (
    SELECT b.id
    FROM unnest($3::bigint[]) AS w(broadcast_id)
    CROSS JOIN LATERAL (
        SELECT FROM broadcast_live l
        WHERE l.broadcast_id = w.broadcast_id AND l.acknowledged = l.events
        OFFSET 0
    ) AS l
    CROSS JOIN LATERAL (
        SELECT FROM broadcast br
        WHERE br.id = w.broadcast_id AND br.routing = 'live_then_push' AND br.settled_at IS NULL
        OFFSET 0
    ) AS br
    CROSS JOIN LATERAL (
        SELECT b.id
        FROM batch b
        WHERE b.broadcast_id = w.broadcast_id AND b.shard + 0 = $1::smallint AND b.state IN ('waiting', 'held') AND b.attempt > 1
          AND b.next_attempt_at > now()
        LIMIT $2
        FOR UPDATE OF b SKIP LOCKED
    ) AS b
)
UPDATE batch b SET next_attempt_at = now() WHERE b.shard = $1 AND b.id = ANY (ARRAY(SELECT id FROM waiting))
