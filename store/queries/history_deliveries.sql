-- Deliveries of a final broadcast, to the devices $2 to $3; those that are there from before stay.
INSERT INTO delivery (broadcast_id, shard, provider_id, device_id, attempts, state, settled_at)
SELECT $1, 0, (SELECT min(provider.id) FROM provider), n, 1, 'sent', now()
FROM generate_series($2::bigint, $3::bigint) AS n
ON CONFLICT DO NOTHING
