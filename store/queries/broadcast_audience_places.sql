-- In which of the shards $2, and at which providers, the devices of a list are that has one row.
SELECT DISTINCT place.provider_id AS "provider!: ProviderId", place.shard AS "shard!"
FROM (
    SELECT d.provider_id, d.shard
    FROM broadcast_audience a
    CROSS JOIN unnest(a.user_ids) AS u(user_id)
    CROSS JOIN LATERAL (SELECT * FROM device WHERE user_id = u.user_id OFFSET 0) AS d
    WHERE a.broadcast_id = $1 AND d.retired_at IS NULL
    UNION ALL
    SELECT d.provider_id, d.shard
    FROM broadcast_audience a
    CROSS JOIN unnest(a.device_ids) AS l(device_id)
    CROSS JOIN unnest($2::smallint[]) AS s(shard)
    CROSS JOIN LATERAL (SELECT * FROM device WHERE shard = s.shard AND id = l.device_id OFFSET 0) AS d
    WHERE a.broadcast_id = $1 AND d.retired_at IS NULL
) AS place
ORDER BY 1, 2
