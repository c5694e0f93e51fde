-- What is left to do of the batches $2 that are ranges, with each device as it is now. A statement of its own after the
-- claim has committed: within the claim's snapshot, what the owner before flushed meanwhile would still look pending.
-- `sending`, in an at-most-once broadcast, is what an owner before was calling when it lost the batch. OFFSET 0 keeps the lookups nested loops on the primary keys, whatever the statistics say.
SELECT b.id AS "batch!: BatchId", d.device_id AS "device!: DeviceId", v.token AS "token?", v.registered_at AS "registered_at?",
       coalesce(v.sendable, false) AS "sendable!", d.state = 'sending' AS "interrupted!"
FROM batch b
CROSS JOIN LATERAL (
    SELECT d.device_id, d.state
    FROM delivery d
    WHERE d.broadcast_id = b.broadcast_id AND d.shard = $1 AND d.provider_id = b.provider_id
      AND d.device_id BETWEEN b.first_device_id AND b.last_device_id
      AND d.state IN ('pending', 'sending') AND d.attempts = b.attempt - 1
    OFFSET 0
) AS d
LEFT JOIN LATERAL (
    SELECT v.token, v.registered_at, v.enabled AND v.retired_at IS NULL AS sendable
    FROM device v
    WHERE v.shard = $1 AND v.id = d.device_id
    OFFSET 0
) AS v ON true
WHERE b.shard = $1 AND b.id = ANY($2::bigint[]) AND b.state = 'leased' AND b.lease_owner = $3
  AND b.device_ids IS NULL
