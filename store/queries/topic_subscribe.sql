WITH live AS (
    SELECT d.shard, d.provider_id, d.id FROM device d WHERE d.shard = ANY ($1::smallint[]) AND d.id = ANY ($3) AND d.retired_at IS NULL
), added AS (
    INSERT INTO device_topic (topic, shard, provider_id, device_id)
    SELECT $2, live.shard, live.provider_id, live.id FROM live ORDER BY 2, 3, 4
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT (SELECT count(*) FROM added) AS "subscribed!",
       ARRAY (SELECT unnest($3::bigint[]) EXCEPT SELECT id FROM live ORDER BY 1) AS "unknown!: Vec<DeviceId>"
