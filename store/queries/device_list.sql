-- A page from each shard, then the first of all of them.
-- $3: 0 without those that are retired, 1 without those that are not, 2 with all of them; $4: quarantined ones likewise.
-- num_nulls: by IS NULL, a partial index of all live devices passes for a way to a page; as CASE, few rows are expected.
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
      AND num_nulls(d.retired_at) <> $3 AND num_nulls(d.quarantined_at) <> $4
      AND ($5::text IS NULL OR p.name = $5)
    ORDER BY d.id
    LIMIT $6
) AS d
ORDER BY d.id
LIMIT $6
