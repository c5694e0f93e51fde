-- Those of the topics $2 that no device is subscribed to.
SELECT t.topic AS "topic!"
FROM unnest($2::text[]) AS t(topic)
WHERE NOT EXISTS (SELECT
                  FROM unnest($1::smallint[]) AS s(shard)
                  CROSS JOIN LATERAL (SELECT FROM device_topic dt WHERE dt.topic = t.topic AND dt.shard = s.shard LIMIT 1) AS dt)
ORDER BY 1
