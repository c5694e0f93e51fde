-- Where the next page ends: the last of up to $8 devices after the cursor $5 (rows of the list, for users, devices and named dead letters);
-- NULL where nothing is left at this provider. Only the branch of the audience's kind $2 runs.
SELECT CASE $2::audience_kind
    WHEN 'everyone' THEN
        (SELECT max(id) FROM (
            SELECT id FROM device
            WHERE shard = $3 AND provider_id = $4 AND id > $5 AND id <= $6 AND enabled AND retired_at IS NULL
              AND quarantined_at IS NULL
            ORDER BY id LIMIT $8) AS page)
    WHEN 'topics' THEN
        (SELECT max(device_id) FROM (
            SELECT DISTINCT t.device_id
            FROM unnest($7::text[]) AS wanted(topic)
            CROSS JOIN LATERAL (
                SELECT device_id FROM device_topic dt
                WHERE dt.topic = wanted.topic AND dt.shard = $3 AND dt.provider_id = $4
                  AND dt.device_id > $5 AND dt.device_id <= $6
                ORDER BY device_id LIMIT $8) AS t
            ORDER BY t.device_id LIMIT $8) AS page)
    WHEN 'dead_letters' THEN
        CASE WHEN (SELECT replay_listed FROM broadcast WHERE id = $1) > 0 THEN
            (SELECT min(ordinal)::bigint FROM broadcast_audience WHERE broadcast_id = $1 AND ordinal > $5)
        ELSE
            (SELECT max(device_id) FROM (
                SELECT device_id FROM dead_letter
                WHERE broadcast_id = (SELECT replay_of FROM broadcast WHERE id = $1) AND shard = $3 AND provider_id = $4
                  AND device_id > $5
                ORDER BY device_id LIMIT $8) AS page)
        END
    ELSE
        (SELECT min(ordinal)::bigint FROM broadcast_audience WHERE broadcast_id = $1 AND ordinal > $5)
END AS bound
