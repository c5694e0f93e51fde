-- What became of deliveries of some replays ($1 to $4: broadcast, shard, provider and device), and which replay took each up in turn.
SELECT k.device_id AS "device!: DeviceId", br.id AS "broadcast!: BroadcastId", br.state AS "broadcast_state!: BroadcastState",
       d.state AS "state?: DeliveryState", d.attempts AS "attempts?", d.next_attempt_at AS "next_attempt_at?",
       d.last_code AS "last_code?", d.dead_reason AS "dead_reason?: DeadReason", d.settled_at AS "settled_at?",
       l.replayed_by AS "replayed_by?: BroadcastId"
FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::bigint[]) AS k(broadcast_id, shard, provider_id, device_id)
CROSS JOIN LATERAL (SELECT id, state FROM broadcast WHERE id = k.broadcast_id OFFSET 0) AS br
LEFT JOIN LATERAL (
    SELECT * FROM delivery
    WHERE broadcast_id = k.broadcast_id AND shard = k.shard AND provider_id = k.provider_id AND device_id = k.device_id
    OFFSET 0
) AS d ON true
LEFT JOIN LATERAL (
    SELECT * FROM dead_letter
    WHERE broadcast_id = k.broadcast_id AND shard = k.shard AND provider_id = k.provider_id AND device_id = k.device_id
    OFFSET 0
) AS l ON true
