-- The same of the devices $2, wherever in the shards $3 they are: one that has no dead letter of the broadcast $1 is unknown.
WITH judged AS (
    SELECT CASE
               WHEN l.device_id IS NULL THEN 'unknown'
               WHEN l.replayed_by IS NOT NULL AND NOT EXISTS (
                   SELECT FROM delivery x
                   WHERE x.broadcast_id = l.replayed_by AND x.shard = l.shard AND x.provider_id = l.provider_id
                     AND x.device_id = l.device_id AND x.state IN ('expired', 'cancelled', 'skipped')
                   OFFSET 0) THEN 'taken up'
               WHEN l.reason = 'unconfirmed' THEN 'unconfirmed'
               WHEN num_nonnulls(d.retired_at, d.quarantined_at) > 0 THEN 'retired'
               WHEN NOT d.enabled THEN 'without consent'
               ELSE 'matching'
           END AS found
    FROM unnest($2::bigint[]) AS n(device_id)
    LEFT JOIN LATERAL (
        SELECT d.*
        FROM unnest($3::smallint[]) AS s(shard)
        CROSS JOIN LATERAL (SELECT * FROM device WHERE shard = s.shard AND id = n.device_id OFFSET 0) AS d
    ) AS d ON true
    LEFT JOIN LATERAL (
        SELECT *
        FROM dead_letter
        WHERE broadcast_id = $1 AND shard = d.shard AND provider_id = d.provider_id AND device_id = n.device_id
        OFFSET 0
    ) AS l ON true
)
SELECT count(*) FILTER (WHERE found = 'matching') AS "matching!", count(*) FILTER (WHERE found = 'taken up') AS "taken_up!",
       count(*) FILTER (WHERE found = 'unconfirmed') AS "unconfirmed!", count(*) FILTER (WHERE found = 'retired') AS "retired!",
       count(*) FILTER (WHERE found = 'without consent') AS "without_consent!", count(*) FILTER (WHERE found = 'unknown') AS "unknown!"
FROM judged
