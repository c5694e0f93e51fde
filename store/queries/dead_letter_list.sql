-- Compared and ordered by the whole key, so that a later page starts where the last one ended. Looks at no more than $12: those that
-- match may be few among very many. What died before $7 is of a broadcast that was made before that: a minute, for clocks that
-- were set.
SELECT l.broadcast_id AS "broadcast: BroadcastId", l.shard, l.provider_id AS "provider_id: ProviderId", p.name AS provider,
       l.device_id AS "device: DeviceId", l.attempts, l.reason AS "reason: DeadReason", l.created_at, l.code, l.detail,
       l.replayed_by AS "replayed_by: BroadcastId", v.user_id AS "user_id?"
FROM (
    SELECT *
    FROM dead_letter
    WHERE ($2::bigint IS NULL OR broadcast_id = $2)
      AND ($7::timestamptz IS NULL OR broadcast_id < broadcast_id_at(least($7, now()) + interval '1 minute'))
      AND (broadcast_id, shard, provider_id, device_id) < ($8::bigint, $1::smallint, $9::smallint, $10::bigint)
    ORDER BY broadcast_id DESC, shard DESC, provider_id DESC, device_id DESC
    LIMIT $12
) AS l
JOIN provider p ON p.id = l.provider_id
LEFT JOIN device v ON v.shard = l.shard AND v.id = l.device_id
WHERE (cardinality($3::dead_reason[]) = 0 OR l.reason = ANY($3))
  AND ($4::text IS NULL OR l.code = $4)
  AND ($5::smallint IS NULL OR l.provider_id = $5)
  AND ($6::timestamptz IS NULL OR l.created_at >= $6)
  AND ($7::timestamptz IS NULL OR l.created_at < $7)
ORDER BY l.broadcast_id DESC, l.shard DESC, l.provider_id DESC, l.device_id DESC
LIMIT $11
