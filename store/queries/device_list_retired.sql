-- As device_list.sql, by device_retirement.
SELECT d.id AS "id: DeviceId", d.user_id, d.name AS provider, d.token, d.installation_id, d.enabled AS consent,
       d.registered_at, d.retired_at, d.retire_reason AS "retire_reason: RetireReason", d.retired_by AS "retired_by: BroadcastId",
       d.retire_code, d.quarantined_at, d.quarantine_code, d.quarantine_detail, d.quarantined_by AS "quarantined_by: BroadcastId", '{}'::text[] AS "topics!"
FROM unnest($1::smallint[]) AS s(shard)
CROSS JOIN LATERAL (
    SELECT d.*, p.name
    FROM device d
    JOIN provider p ON p.id = d.provider_id
    WHERE d.shard = s.shard
      AND d.id > $2
      AND d.retired_at IS NOT NULL
      AND ($3::text IS NULL OR p.name = $3)
    ORDER BY d.id
    LIMIT $4
) AS d
ORDER BY d.id
LIMIT $4
