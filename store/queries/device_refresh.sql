UPDATE device d
SET registered_at = now(),
    enabled = coalesce(r.consent, d.enabled),
    installation_id = coalesce(r.installation_id, d.installation_id),
    quarantined_at = NULL, quarantine_code = NULL, quarantine_detail = NULL, quarantined_by = NULL
FROM unnest($2::bigint[], $3::boolean[], $4::text[]) AS r (id, consent, installation_id)
WHERE d.shard = $1 AND d.id = r.id
