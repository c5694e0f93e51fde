-- A delivery of $1 for each device from $2 to $3 that can be sent to: what a page of fan-out cannot do without.
INSERT INTO delivery (broadcast_id, shard, provider_id, device_id)
SELECT $1, d.shard, d.provider_id, d.id
FROM device d
WHERE d.shard = 0 AND d.provider_id IN (SELECT id FROM provider) AND d.id BETWEEN $2 AND $3 AND d.enabled AND d.retired_at IS NULL
  AND d.quarantined_at IS NULL
