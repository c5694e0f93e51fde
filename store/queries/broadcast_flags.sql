-- Those of $1 of which no call may start.
SELECT id AS "id: BroadcastId", paused, state IN ('cancelling', 'cancelled') AS "cancelled!"
FROM broadcast
WHERE id = ANY($1::bigint[]) AND (paused OR state IN ('cancelling', 'cancelled'))
