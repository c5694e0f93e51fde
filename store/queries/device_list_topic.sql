-- A page from each provider, in the order of the topic's key, then the first of all of them.
SELECT d.id AS "id: DeviceId", d.user_id, p.name AS provider, d.token, d.installation_id, d.enabled AS consent,
       d.registered_at, d.retired_at, d.retire_reason AS "retire_reason: RetireReason", '{}'::text[] AS "topics!"
FROM provider p
CROSS JOIN LATERAL (
    SELECT d.*
    FROM device_topic t
    JOIN device d ON d.shard = t.shard AND d.id = t.device_id
    WHERE t.topic = $6
      AND t.shard = $1
      AND t.provider_id = p.id
      AND t.device_id > $2
      AND ($3 OR d.retired_at IS NULL)
    ORDER BY t.device_id
    LIMIT $5
) AS d
WHERE $4::text IS NULL OR p.name = $4
ORDER BY d.id
LIMIT $5
