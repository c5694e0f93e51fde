-- Compared and ordered by the whole key, so that a later page starts where the last one ended.
SELECT l.broadcast_id AS "broadcast: BroadcastId", l.shard, l.provider_id AS "provider_id: ProviderId", p.name AS provider,
       l.device_id AS "device: DeviceId", l.attempts, l.reason AS "reason: DeadReason", l.created_at, l.code, l.detail,
       l.replayed_by AS "replayed_by: BroadcastId", v.user_id AS "user_id?"
FROM dead_letter l
JOIN provider p ON p.id = l.provider_id
LEFT JOIN device v ON v.shard = l.shard AND v.id = l.device_id
WHERE ($2::bigint IS NULL OR l.broadcast_id = $2)
  AND (cardinality($3::dead_reason[]) = 0 OR l.reason = ANY($3))
  AND ($4::text IS NULL OR l.code = $4)
  AND ($5::smallint IS NULL OR l.provider_id = $5)
  AND ($6::timestamptz IS NULL OR l.created_at >= $6)
  AND ($7::timestamptz IS NULL OR l.created_at < $7)
  AND (l.broadcast_id, l.shard, l.provider_id, l.device_id) < ($8::bigint, $1::smallint, $9::smallint, $10::bigint)
ORDER BY l.broadcast_id DESC, l.shard DESC, l.provider_id DESC, l.device_id DESC
LIMIT $11
