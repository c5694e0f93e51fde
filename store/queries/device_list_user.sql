-- num_nulls: by IS NULL, a partial index of all live devices passes for a way to a user's; OFFSET 0: topics device by device.
SELECT d.id AS "id: DeviceId", d.user_id, p.name AS provider, d.token, d.installation_id, d.enabled AS consent,
       d.registered_at, d.retired_at, d.retire_reason AS "retire_reason: RetireReason", d.retired_by AS "retired_by: BroadcastId",
       d.retire_code, d.quarantined_at, d.quarantine_code, d.quarantine_detail, d.quarantined_by AS "quarantined_by: BroadcastId", '{}'::text[] AS "topics!"
FROM device d
JOIN provider p ON p.id = d.provider_id
WHERE d.user_id = $1
  AND d.id > $2
  AND num_nulls(d.retired_at) <> $3 AND num_nulls(d.quarantined_at) <> $4
  AND ($5::text IS NULL OR p.name = $5)
  AND ($7::text IS NULL
       OR EXISTS (SELECT FROM device_topic t WHERE t.topic = $7 AND t.shard = d.shard
                  AND t.provider_id = d.provider_id AND t.device_id = d.id
                  OFFSET 0))
ORDER BY d.id
LIMIT $6
