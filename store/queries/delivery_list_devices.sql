-- A page of the deliveries of a broadcast to the devices of the user $11, or to the devices $12: each by its key. $2 to $10 as in
-- delivery_list.sql; $13: rows at most.
SELECT d.provider_id AS "provider_id: ProviderId", p.name AS provider, d.device_id AS "device: DeviceId",
       d.state AS "state: DeliveryState", d.attempts, d.next_attempt_at, d.last_code,
       d.dead_reason AS "dead_reason: DeadReason", d.settled_at, v.user_id AS "user_id?"
FROM (
    SELECT u.shard, u.provider_id, u.id, u.user_id
    FROM (SELECT * FROM device WHERE user_id = $11::text OFFSET 0) AS u
    UNION ALL
    SELECT l.shard, l.provider_id, l.id, l.user_id
    FROM unnest($2::smallint[]) AS s(shard)
    CROSS JOIN unnest($12::bigint[]) AS w(id)
    CROSS JOIN LATERAL (SELECT * FROM device WHERE shard = s.shard AND id = w.id OFFSET 0) AS l
) AS v
CROSS JOIN LATERAL (
    SELECT *
    FROM delivery
    WHERE broadcast_id = $1 AND shard = v.shard AND provider_id = v.provider_id AND device_id = v.id
    OFFSET 0
) AS d
JOIN provider p ON p.id = d.provider_id
WHERE (d.provider_id, d.device_id) > ($3::smallint, $4::bigint)
  AND d.provider_id <= $5::smallint
  AND (cardinality($6::delivery_state[]) = 0 OR d.state = ANY ($6))
  AND (cardinality($7::dead_reason[]) = 0 OR d.dead_reason = ANY ($7))
  AND ($8::text IS NULL OR d.last_code = $8)
  AND ($9::timestamptz IS NULL OR d.settled_at >= $9)
  AND ($10::timestamptz IS NULL OR d.settled_at < $10)
ORDER BY d.provider_id, d.device_id
LIMIT $13
