-- Where to call, as it is now: for each batch $2 the devices from $4 to $5 of its provider $3 that can be called.
SELECT r.batch AS "batch!: BatchId", v.ids AS "devices!: Vec<DeviceId>", v.tokens AS "tokens!", v.registered AS "registered_at!"
FROM unnest($2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[]) AS r(batch, provider_id, first, last)
CROSS JOIN LATERAL (
    SELECT array_agg(v.id) AS ids, array_agg(v.token) AS tokens, array_agg(v.registered_at) AS registered
    FROM device v
    WHERE v.shard = $1 AND v.provider_id = r.provider_id AND v.id BETWEEN r.first AND r.last
      AND v.enabled AND v.retired_at IS NULL AND v.quarantined_at IS NULL
) AS v
WHERE v.ids IS NOT NULL
