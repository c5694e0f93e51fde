SELECT d.provider_id AS "provider_id: ProviderId", p.name AS provider, d.device_id AS "device: DeviceId",
       d.state AS "state: DeliveryState", d.attempts, d.next_attempt_at, d.last_code,
       d.dead_reason AS "dead_reason: DeadReason", d.settled_at, v.user_id AS "user_id?"
FROM delivery d
JOIN provider p ON p.id = d.provider_id
LEFT JOIN device v ON v.shard = d.shard AND v.id = d.device_id
WHERE d.broadcast_id = $1 AND d.shard = $2
  AND (d.provider_id, d.device_id) > ($3::smallint, $4::bigint)
  AND (cardinality($5::delivery_state[]) = 0 OR d.state = ANY($5))
  AND ($6::smallint IS NULL OR d.provider_id = $6)
ORDER BY d.provider_id, d.device_id
LIMIT $7
