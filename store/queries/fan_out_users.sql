-- The users of one page's devices, after the cursor $5 up to its end $6. Only the branch of the audience's kind $2 runs. As in
-- fan_out_page.sql, which has made the page's deliveries by now: whoever came since has an event and no delivery, never the other way.
SELECT DISTINCT user_id AS "user_id!"
FROM (
    SELECT d.user_id
    FROM device d
    WHERE $2::audience_kind = 'everyone'
      AND d.shard = $3 AND d.provider_id = $4 AND d.id > $5 AND d.id <= $6 AND d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL
    UNION ALL
    SELECT d.user_id
    FROM (SELECT DISTINCT device_id FROM device_topic
          WHERE topic = ANY($8::text[]) AND shard = $3 AND provider_id = $4 AND device_id > $5 AND device_id <= $6) AS t
    CROSS JOIN LATERAL (SELECT * FROM device WHERE shard = $3 AND id = t.device_id OFFSET 0) AS d
    WHERE $2 = 'topics' AND d.provider_id = $4 AND d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL
    UNION ALL
    SELECT d.user_id
    FROM broadcast_audience a
    CROSS JOIN unnest(a.user_ids) AS u(user_id)
    CROSS JOIN LATERAL (SELECT * FROM device WHERE user_id = u.user_id OFFSET 0) AS d
    WHERE $2 = 'users' AND a.broadcast_id = $1 AND a.ordinal = $6
      AND d.shard = $3 AND d.provider_id = $4 AND d.id <= $7 AND d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL
    UNION ALL
    SELECT d.user_id
    FROM broadcast_audience a
    CROSS JOIN unnest(a.device_ids) AS l(device_id)
    CROSS JOIN LATERAL (SELECT * FROM device WHERE shard = $3 AND id = l.device_id OFFSET 0) AS d
    WHERE $2 = 'devices' AND a.broadcast_id = $1 AND a.ordinal = $6 AND d.id <= $7
      AND d.provider_id = $4 AND d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL
) AS page
