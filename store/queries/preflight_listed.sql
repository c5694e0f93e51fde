-- How many devices of the users $2, or of the devices $3, can be called at each provider, and how many of the list have one.
WITH found AS MATERIALIZED (
    SELECT u.n, d.provider_id
    FROM unnest($2::text[]) WITH ORDINALITY AS u(user_id, n)
    CROSS JOIN LATERAL (SELECT * FROM device WHERE user_id = u.user_id OFFSET 0) AS d
    WHERE d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL
    UNION ALL
    SELECT l.n, d.provider_id
    FROM unnest($3::bigint[]) WITH ORDINALITY AS l(device_id, n)
    CROSS JOIN unnest($1::smallint[]) AS s(shard)
    CROSS JOIN LATERAL (SELECT * FROM device WHERE shard = s.shard AND id = l.device_id OFFSET 0) AS d
    WHERE d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL
)
SELECT provider_id AS "provider!: ProviderId", count(*) AS "devices!", (SELECT count(DISTINCT n) FROM found) AS "reached!"
FROM found
GROUP BY provider_id
