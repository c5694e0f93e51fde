-- $1 and $2: shard and id of the devices whose topics are handed on; $3 and $4: of those that get them.
INSERT INTO device_topic (topic, shard, provider_id, device_id)
SELECT t.topic, r.heir_shard, t.provider_id, r.heir
FROM unnest($1::smallint[], $2::bigint[], $3::smallint[], $4::bigint[]) AS r (ancestor_shard, ancestor, heir_shard, heir)
JOIN device_topic t ON t.shard = r.ancestor_shard AND t.device_id = r.ancestor
ORDER BY 1, 2, 3, 4
ON CONFLICT DO NOTHING
