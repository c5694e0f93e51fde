-- The live devices that stand under one of these tokens or installations, locked in order of id. The ids are found first
-- and looked up as an array: as a join, this was seen to read the whole table. num_nulls, so that no partial
-- index of all live devices passes for a way to these.
WITH found AS MATERIALIZED (
    SELECT device.id
    FROM unnest($2::smallint[], $3::text[]) AS wanted (provider_id, token)
    CROSS JOIN LATERAL (
        SELECT id FROM device
        WHERE shard = $1 AND provider_id = wanted.provider_id AND token = wanted.token AND retired_at IS NULL
        OFFSET 0
    ) AS device
    UNION
    SELECT device.id
    FROM unnest($4::smallint[], $5::text[]) AS wanted (provider_id, installation_id)
    CROSS JOIN LATERAL (
        SELECT id FROM device
        WHERE shard = $1 AND provider_id = wanted.provider_id AND installation_id = wanted.installation_id
          AND retired_at IS NULL
        OFFSET 0
    ) AS device
)
SELECT d.id AS "id: DeviceId", d.provider_id AS "provider_id: ProviderId", d.token, d.user_id, d.installation_id,
       d.enabled AS consent, num_nulls(d.quarantined_at) = 0 AS "quarantined!"
FROM device d
WHERE d.shard = $1
  AND d.id = ANY (ARRAY (SELECT id FROM found))
  AND num_nulls(d.retired_at) <> 0
ORDER BY d.id
FOR UPDATE OF d
