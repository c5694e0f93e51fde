INSERT INTO device_topic (topic, shard, provider_id, device_id)
SELECT t.topic, t.shard, t.provider_id, r.heir
FROM unnest($2::bigint[], $3::bigint[]) AS r (ancestor, heir)
JOIN device_topic t ON t.shard = $1 AND t.device_id = r.ancestor
ORDER BY 1, 2, 3, 4
ON CONFLICT DO NOTHING
