-- A page from each provider and shard, in the order of the topic's key, then the first of all of them. Compared and
-- ordered by provider, too, so that no index without it passes for this order; OFFSET 0: each device by its key.
SELECT d.id AS "id: DeviceId", d.user_id, p.name AS provider, d.token, d.installation_id, d.enabled AS consent,
       d.registered_at, d.retired_at, d.retire_reason AS "retire_reason: RetireReason", d.retired_by AS "retired_by: BroadcastId",
       d.retire_code, d.quarantined_at, d.quarantine_code, d.quarantine_detail, d.quarantined_by AS "quarantined_by: BroadcastId", '{}'::text[] AS "topics!"
FROM provider p
CROSS JOIN unnest($1::smallint[]) AS s(shard)
CROSS JOIN LATERAL (
    SELECT d.*
    FROM device_topic t
    CROSS JOIN LATERAL (SELECT * FROM device WHERE shard = s.shard AND id = t.device_id OFFSET 0) AS d
    WHERE t.topic = $7
      AND t.shard = s.shard
      AND (t.provider_id, t.device_id) > (p.id, $2)
      AND t.provider_id <= p.id
      AND num_nulls(d.retired_at) <> $3 AND num_nulls(d.quarantined_at) <> $4
    ORDER BY t.provider_id, t.device_id
    LIMIT $6
) AS d
WHERE $5::text IS NULL OR p.name = $5
ORDER BY d.id
LIMIT $6
