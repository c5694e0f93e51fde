-- A page from each shard, in the order of the key, then the first of all of them.
SELECT d.provider_id AS "provider_id: ProviderId", p.name AS provider, d.device_id AS "device: DeviceId",
       d.state AS "state: DeliveryState", d.attempts, d.next_attempt_at, d.last_code,
       d.dead_reason AS "dead_reason: DeadReason", d.settled_at, v.user_id AS "user_id?"
FROM (
    SELECT d.*
    FROM unnest($2::smallint[]) AS s(shard)
    CROSS JOIN LATERAL (
        SELECT *
        FROM delivery
        WHERE broadcast_id = $1 AND shard = s.shard
          AND (provider_id, device_id) > ($3::smallint, $4::bigint)
          AND (cardinality($5::delivery_state[]) = 0 OR state = ANY($5))
          AND ($6::smallint IS NULL OR provider_id = $6)
        ORDER BY provider_id, device_id
        LIMIT $7
    ) AS d
    ORDER BY d.provider_id, d.device_id
    LIMIT $7
) AS d
JOIN provider p ON p.id = d.provider_id
LEFT JOIN device v ON v.shard = d.shard AND v.id = d.device_id
ORDER BY d.provider_id, d.device_id
