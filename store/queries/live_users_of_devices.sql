-- The users of the devices $1 that can be called, listed by the broadcast $2 each.
SELECT DISTINCT l.broadcast_id AS "broadcast!: BroadcastId", d.user_id AS "user_id!"
FROM unnest($1::bigint[], $2::bigint[]) AS l(device_id, broadcast_id)
CROSS JOIN generate_series(0, (SELECT shards FROM settings) - 1) AS s(shard)
CROSS JOIN LATERAL (SELECT * FROM device WHERE shard = s.shard::smallint AND id = l.device_id OFFSET 0) AS d
WHERE d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL
