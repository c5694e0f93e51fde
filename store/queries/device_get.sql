SELECT d.id AS "id: DeviceId", d.user_id, p.name AS provider, d.token, d.installation_id, d.enabled AS consent,
       d.registered_at, d.retired_at, d.retire_reason AS "retire_reason: RetireReason", d.retired_by AS "retired_by: BroadcastId",
       d.retire_code, d.quarantined_at, d.quarantine_code, d.quarantine_detail, d.quarantined_by AS "quarantined_by: BroadcastId",
       ARRAY (SELECT t.topic FROM device_topic t WHERE t.shard = d.shard AND t.device_id = d.id
              ORDER BY t.topic COLLATE "C") AS "topics!"
FROM device d
JOIN provider p ON p.id = d.provider_id
WHERE d.shard = ANY ($1::smallint[]) AND d.id = $2
