-- Devices that are not where their provider and token say (see store/src/shards.rs): a second one of the token could live.
SELECT 'device ' || id AS "subject!", format('is in shard %s and belongs into %s', shard, home) AS "detail!"
FROM (
    SELECT d.id, d.shard,
           ('x' || left(encode(sha256(convert_to(d.provider_id || ':' || d.token, 'UTF8')), 'hex'), 8))::bit(32)::bigint % s.shards AS home
    FROM device d CROSS JOIN settings s
) AS d
WHERE shard <> home
ORDER BY id
LIMIT 50
