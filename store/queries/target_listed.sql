-- As target_range.sql, for devices one by one: $2 and $3, each with its batch. Spelt so that device_sendable, which has no way in
-- by id alone, is not taken for one; OFFSET 0 keeps the lookups nested loops on the primary key.
SELECT l.batch AS "batch!: BatchId", v.id AS "device!: DeviceId", v.token AS "token!", v.registered_at AS "registered_at!"
FROM unnest($2::bigint[], $3::bigint[]) AS l(batch, device_id)
CROSS JOIN LATERAL (
    SELECT v.id, v.token, v.registered_at
    FROM device v
    WHERE v.shard = $1 AND v.id = l.device_id AND v.enabled AND num_nulls(v.retired_at, v.quarantined_at) = 2
    OFFSET 0
) AS v
