-- What happened to each of some devices ($1, $2: shard and id): the newest $3 of each, in order.
SELECT k.id AS "device!: DeviceId", e.at AS "at!", e.kind AS "kind!: DeviceEventKind", e.since AS "since?", e.code AS "code?",
       e.detail AS "detail?", e.broadcast_id AS "broadcast?: BroadcastId"
FROM unnest($1::smallint[], $2::bigint[]) AS k(shard, id)
CROSS JOIN LATERAL (
    SELECT * FROM device_event WHERE shard = k.shard AND device_id = k.id ORDER BY at DESC, kind DESC LIMIT $3
) AS e
ORDER BY k.id, e.at, e.kind
