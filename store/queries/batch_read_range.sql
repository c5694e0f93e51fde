-- What is left to do of the batches $2 that are ranges, and which of it an owner before was calling when it lost the batch
-- (at most once). A statement of its own after the claim has committed: within the claim's snapshot, what the owner before
-- flushed meanwhile would still look pending.
SELECT b.id AS "batch!: BatchId", d.devices AS "devices!: Vec<DeviceId>", d.sending AS "sending!: Vec<DeviceId>",
       br.everyone AS "everyone!"
FROM batch b
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(d.device_id), '{}') AS devices,
           coalesce(array_agg(d.device_id) FILTER (WHERE d.state = 'sending'), '{}') AS sending
    FROM delivery d
    WHERE d.broadcast_id = b.broadcast_id AND d.shard = $1 AND d.provider_id = b.provider_id
      AND d.device_id BETWEEN b.first_device_id AND b.last_device_id
      AND d.state IN ('pending', 'sending') AND d.attempts = b.attempt - 1
) AS d
CROSS JOIN LATERAL (SELECT br.audience = 'everyone' AS everyone FROM broadcast br WHERE br.id = b.broadcast_id OFFSET 0) AS br
WHERE b.shard = $1 AND b.id = ANY($2::bigint[]) AND b.state = 'leased' AND b.lease_owner = $3
  AND b.device_ids IS NULL
