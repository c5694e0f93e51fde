-- As batch_read_range.sql, for batches that name their devices one by one: retries, and audiences of users. OFFSET 0 keeps the
-- lookups nested loops on the primary key, whatever the statistics say.
SELECT b.id AS "batch!: BatchId", d.devices AS "devices!: Vec<DeviceId>", d.sending AS "sending!: Vec<DeviceId>"
FROM batch b
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(d.device_id), '{}') AS devices,
           coalesce(array_agg(d.device_id) FILTER (WHERE d.state = 'sending'), '{}') AS sending
    FROM unnest(b.device_ids) AS l(device_id)
    CROSS JOIN LATERAL (
        SELECT d.device_id, d.state
        FROM delivery d
        WHERE d.broadcast_id = b.broadcast_id AND d.shard = $1 AND d.provider_id = b.provider_id
          AND d.device_id = l.device_id
          AND d.state IN ('pending', 'sending') AND d.attempts = b.attempt - 1
        OFFSET 0
    ) AS d
) AS d
WHERE b.shard = $1 AND b.id = ANY($2::bigint[]) AND b.state = 'leased' AND b.lease_owner = $3
  AND b.device_ids IS NOT NULL
