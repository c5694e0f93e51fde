-- Of the next $5 dead letters of the broadcast $1 in shard $2, after provider $3 and device $4: how many a replay would take up,
-- and how many of those that match it would not, each for the first of these reasons. The same conditions as in
-- fan_out_page.sql, and like there looked up one by one.
WITH page AS MATERIALIZED (
    SELECT *
    FROM dead_letter
    WHERE broadcast_id = $1 AND shard = $2 AND (provider_id, device_id) > ($3::smallint, $4::bigint)
    ORDER BY provider_id, device_id
    LIMIT $5
), judged AS (
    SELECT CASE
               WHEN l.replayed_by IS NOT NULL AND NOT EXISTS (
                   SELECT FROM delivery x
                   WHERE x.broadcast_id = l.replayed_by AND x.shard = l.shard AND x.provider_id = l.provider_id
                     AND x.device_id = l.device_id AND x.state IN ('expired', 'cancelled', 'skipped')
                   OFFSET 0) THEN 'taken up'
               WHEN l.reason = 'unconfirmed' AND cardinality($6::dead_reason[]) = 0 THEN 'unconfirmed'
               ELSE coalesce((SELECT CASE WHEN num_nonnulls(d.retired_at, d.quarantined_at) > 0 THEN 'retired'
                                          WHEN NOT d.enabled THEN 'without consent'
                                          ELSE 'matching' END
                              FROM device d WHERE d.shard = l.shard AND d.id = l.device_id), 'retired')
           END AS found
    FROM page l
    WHERE (cardinality($6::dead_reason[]) = 0 OR l.reason = ANY($6))
      AND ($7::text IS NULL OR l.code = $7)
      AND ($8::smallint IS NULL OR l.provider_id = $8)
      AND ($9::timestamptz IS NULL OR l.created_at >= $9)
      AND ($10::timestamptz IS NULL OR l.created_at < $10)
)
SELECT count(*) FILTER (WHERE found = 'matching') AS "matching!", count(*) FILTER (WHERE found = 'taken up') AS "taken_up!",
       count(*) FILTER (WHERE found = 'unconfirmed') AS "unconfirmed!", count(*) FILTER (WHERE found = 'retired') AS "retired!",
       count(*) FILTER (WHERE found = 'without consent') AS "without_consent!", (SELECT count(*) FROM page) AS "looked_at!",
       (SELECT provider_id FROM page ORDER BY provider_id DESC, device_id DESC LIMIT 1) AS "last_provider: ProviderId",
       (SELECT device_id FROM page ORDER BY provider_id DESC, device_id DESC LIMIT 1) AS "last_device: DeviceId"
FROM judged
