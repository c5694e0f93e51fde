DELETE FROM device_topic t
USING device d
WHERE d.shard = ANY ($1::smallint[]) AND d.id = ANY ($3)
  AND t.topic = $2 AND t.shard = d.shard AND t.provider_id = d.provider_id AND t.device_id = d.id
