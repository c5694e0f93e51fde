-- Fewer rows than asked for means that somebody else registered one of these tokens or installations meanwhile.
INSERT INTO device (shard, provider_id, token, user_id, installation_id, enabled)
SELECT $1, r.provider_id, r.token, r.user_id, r.installation_id, r.consent
FROM unnest($2::smallint[], $3::text[], $4::text[], $5::text[], $6::boolean[])
     AS r (provider_id, token, user_id, installation_id, consent)
ON CONFLICT DO NOTHING
RETURNING id AS "id: DeviceId", provider_id AS "provider_id: ProviderId", token
