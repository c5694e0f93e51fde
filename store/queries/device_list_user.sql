-- num_nulls: by IS NULL, a partial index of all live devices passes for a way to a user's; OFFSET 0: topics device by device.
SELECT d.id AS "id: DeviceId", d.user_id, p.name AS provider, d.token, d.installation_id, d.enabled AS consent,
       d.registered_at, d.retired_at, d.retire_reason AS "retire_reason: RetireReason", '{}'::text[] AS "topics!"
FROM device d
JOIN provider p ON p.id = d.provider_id
WHERE d.user_id = $1
  AND d.id > $2
  AND ($3 OR num_nulls(d.retired_at) <> 0)
  AND ($4::text IS NULL OR p.name = $4)
  AND ($6::text IS NULL
       OR EXISTS (SELECT FROM device_topic t WHERE t.topic = $6 AND t.shard = d.shard
                  AND t.provider_id = d.provider_id AND t.device_id = d.id
                  OFFSET 0))
ORDER BY d.id
LIMIT $5
