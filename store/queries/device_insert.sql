-- A row that stands already is an error (unique_violation), and rare: ON CONFLICT would look into every index twice.
-- Nothing is inserted where the devices are spread over another number of shards than $7: $1 is then not where they belong.
INSERT INTO device (shard, provider_id, token, user_id, installation_id, enabled)
SELECT $1, r.provider_id, r.token, r.user_id, r.installation_id, r.consent
FROM unnest($2::smallint[], $3::text[], $4::text[], $5::text[], $6::boolean[])
     AS r (provider_id, token, user_id, installation_id, consent)
WHERE (SELECT shards FROM settings) = $7
RETURNING id AS "id: DeviceId", provider_id AS "provider_id: ProviderId", token
