-- Counts $2 more acknowledged events of each of the broadcasts $1, and returns those of which all are now. Locked in order, since many
-- do this at a time.
WITH locked AS MATERIALIZED (
    SELECT broadcast_id FROM broadcast_live WHERE broadcast_id = ANY($1::bigint[]) ORDER BY broadcast_id FOR UPDATE
), counted AS (
    UPDATE broadcast_live l
    SET acknowledged = l.acknowledged + w.n
    FROM locked, unnest($1, $2::bigint[]) AS w(broadcast_id, n)
    WHERE l.broadcast_id = locked.broadcast_id AND w.broadcast_id = locked.broadcast_id
    RETURNING l.broadcast_id, l.acknowledged = l.events AS everybody
)
SELECT broadcast_id AS "broadcast!: BroadcastId" FROM counted WHERE everybody
