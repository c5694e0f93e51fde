SELECT broadcast_id AS "broadcast: BroadcastId", events, acknowledged
FROM broadcast_live
WHERE broadcast_id = ANY($1::bigint[])
