-- A page of what matches among the next $11 deliveries, and where these end: however few match, each step reads so many rows and no
-- more. In the order of the key: so many from each shard, then the first of all of them. $3, $4: after which provider and device;
-- $5: the last provider; $6 to $10: states, reasons, code, settled from and before (empty or NULL: any); $12: rows at most.
WITH looked_at AS MATERIALIZED (
    SELECT d.*
    FROM unnest($2::smallint[]) AS s(shard)
    CROSS JOIN LATERAL (
        SELECT *
        FROM delivery
        WHERE broadcast_id = $1 AND shard = s.shard
          AND (provider_id, device_id) > ($3::smallint, $4::bigint)
          AND provider_id <= $5::smallint
        ORDER BY provider_id, device_id
        LIMIT $11
    ) AS d
    ORDER BY d.provider_id, d.device_id
    LIMIT $11
), page AS MATERIALIZED (
    SELECT *
    FROM looked_at
    WHERE (cardinality($6::delivery_state[]) = 0 OR state = ANY ($6))
      AND (cardinality($7::dead_reason[]) = 0 OR dead_reason = ANY ($7))
      AND ($8::text IS NULL OR last_code = $8)
      AND ($9::timestamptz IS NULL OR settled_at >= $9)
      AND ($10::timestamptz IS NULL OR settled_at < $10)
    ORDER BY provider_id, device_id
    LIMIT $12
)
SELECT n.looked_at AS "looked_at!", e.provider_id AS "end_provider?: ProviderId", e.device_id AS "end_device?: DeviceId",
       d.provider_id AS "provider_id?: ProviderId", p.name AS "provider?", d.device_id AS "device?: DeviceId",
       d.state AS "state?: DeliveryState", d.attempts AS "attempts?", d.next_attempt_at AS "next_attempt_at?",
       d.last_code AS "last_code?", d.dead_reason AS "dead_reason?: DeadReason", d.settled_at AS "settled_at?",
       v.user_id AS "user_id?"
FROM (SELECT count(*) AS looked_at FROM looked_at) AS n
LEFT JOIN (SELECT provider_id, device_id FROM looked_at ORDER BY provider_id DESC, device_id DESC LIMIT 1) AS e ON true
LEFT JOIN page d ON true
LEFT JOIN provider p ON p.id = d.provider_id
LEFT JOIN LATERAL (SELECT user_id FROM device WHERE shard = d.shard AND id = d.device_id OFFSET 0) AS v ON true
ORDER BY d.provider_id, d.device_id
