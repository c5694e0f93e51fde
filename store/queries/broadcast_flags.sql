SELECT id AS "id: BroadcastId"
FROM broadcast
WHERE id = ANY($1::bigint[]) AND state IN ('cancelling', 'cancelled')
