-- A page from each shard, then the first of all of them.
-- num_nulls: by IS NULL, a partial index of all live devices passes for a way to a page.
SELECT d.id AS "id: DeviceId", d.user_id, d.name AS provider, d.token, d.installation_id, d.enabled AS consent,
       d.registered_at, d.retired_at, d.retire_reason AS "retire_reason: RetireReason", '{}'::text[] AS "topics!"
FROM unnest($1::smallint[]) AS s(shard)
CROSS JOIN LATERAL (
    SELECT d.*, p.name
    FROM device d
    JOIN provider p ON p.id = d.provider_id
    WHERE d.shard = s.shard
      AND d.id > $2
      AND ($3 OR num_nulls(d.retired_at) <> 0)
      AND ($4::text IS NULL OR p.name = $4)
    ORDER BY d.id
    LIMIT $5
) AS d
ORDER BY d.id
LIMIT $5
