INSERT INTO device_topic (topic, shard, provider_id, device_id)
SELECT r.topic, $1::smallint, r.provider_id, r.device_id
FROM unnest($2::text[], $3::smallint[], $4::bigint[]) AS r (topic, provider_id, device_id)
ORDER BY 1, 2, 3, 4
ON CONFLICT DO NOTHING
