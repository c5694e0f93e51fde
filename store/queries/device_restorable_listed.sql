-- As the two others, for devices one by one: $2, of the shard $1.
WITH wanted AS MATERIALIZED (
    SELECT d.id, d.provider_id, d.token, d.installation_id, d.retired_at,
           row_number() OVER (PARTITION BY d.provider_id, d.installation_id, num_nulls(d.retired_at) ORDER BY d.id DESC) AS turn
    FROM unnest($2::bigint[]) AS l(id)
    CROSS JOIN LATERAL (SELECT * FROM device WHERE shard = $1 AND id = l.id OFFSET 0) AS d
    WHERE d.retire_reason = 'unregistered' OR (num_nulls(d.retired_at) = 1 AND num_nulls(d.quarantined_at) = 0)
)
SELECT NULL::bigint AS "until: DeviceId", w.id AS "id?: DeviceId",
       num_nulls(w.retired_at) = 0
       AND ((w.installation_id IS NOT NULL AND w.turn > 1)
            OR EXISTS (SELECT FROM device n WHERE n.shard = $1 AND n.provider_id = w.provider_id AND n.token = w.token
                       AND n.retired_at IS NULL OFFSET 0)
            OR EXISTS (SELECT FROM device n WHERE n.token = w.token AND n.shard = $1 AND n.provider_id = w.provider_id
                       AND n.id > w.id AND n.retired_at IS NOT NULL OFFSET 0)
            OR EXISTS (SELECT FROM device n WHERE n.shard = ANY ($3::smallint[]) AND n.provider_id = w.provider_id
                       AND n.installation_id = w.installation_id AND n.retired_at IS NULL OFFSET 0)) AS "superseded!"
FROM wanted w
