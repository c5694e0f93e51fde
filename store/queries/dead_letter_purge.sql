-- Looks at the next $11 dead letters after the key ($1 broadcast, $2 shard, $3 provider, $4 device), of the broadcast $5 or of
-- all, and deletes those that match; or, where $12, counts them. What died before $10 is of a broadcast that was made before
-- that: a minute, for clocks that were set.
WITH page AS MATERIALIZED (
    SELECT l.ctid AS place, l.broadcast_id, l.shard, l.provider_id, l.device_id,
           (cardinality($6::dead_reason[]) = 0 OR l.reason = ANY($6))
           AND ($7::text IS NULL OR l.code = $7)
           AND ($8::smallint IS NULL OR l.provider_id = $8)
           AND ($9::timestamptz IS NULL OR l.created_at >= $9)
           AND ($10::timestamptz IS NULL OR l.created_at < $10) AS matches
    FROM dead_letter l
    WHERE (l.broadcast_id, l.shard, l.provider_id, l.device_id) > ($1::bigint, $2::smallint, $3::smallint, $4::bigint)
      AND ($5::bigint IS NULL OR l.broadcast_id = $5)
      AND ($10::timestamptz IS NULL OR l.broadcast_id < broadcast_id_at(least($10, now()) + interval '1 minute'))
    ORDER BY l.broadcast_id, l.shard, l.provider_id, l.device_id
    LIMIT $11
), gone AS (
    DELETE FROM dead_letter
    WHERE NOT $12::boolean AND ctid = ANY (ARRAY(SELECT place FROM page WHERE matches))
    RETURNING broadcast_id
), noted AS (
    -- In order, so that two that purge the same wait for each other one way.
    INSERT INTO dead_letter_purge (broadcast_id, letters)
    SELECT broadcast_id, count(*) FROM gone GROUP BY broadcast_id ORDER BY broadcast_id
    ON CONFLICT (broadcast_id) DO UPDATE SET letters = dead_letter_purge.letters + excluded.letters
), last AS (
    SELECT * FROM page ORDER BY broadcast_id DESC, shard DESC, provider_id DESC, device_id DESC LIMIT 1
)
SELECT CASE WHEN $12 THEN count(*) FILTER (WHERE matches) ELSE (SELECT count(*) FROM gone) END AS "letters!",
       count(*) AS "looked_at!",
       (SELECT broadcast_id FROM last) AS "broadcast: BroadcastId", (SELECT shard FROM last) AS shard,
       (SELECT provider_id FROM last) AS "provider: ProviderId", (SELECT device_id FROM last) AS "device: DeviceId"
FROM page
