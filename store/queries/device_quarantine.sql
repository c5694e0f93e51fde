-- The provider said that these tokens and our credentials do not fit together. As device_retire_unregistered.sql, but for
-- their topics, which they keep; the first evidence stays.
UPDATE device d
SET quarantined_at = now(), quarantined_by = g.broadcast_id, quarantine_code = g.code, quarantine_detail = g.detail
FROM unnest($2::bigint[], $3::text[], $4::timestamptz[], $5::bigint[], $6::text[], $7::text[])
     AS g(id, token, registered_at, broadcast_id, code, detail)
WHERE d.shard = $1 AND d.id = g.id AND d.token = g.token AND d.registered_at = g.registered_at
  AND num_nulls(d.retired_at, d.quarantined_at) = 2
