-- Of the next $3 devices of the shard $1 before $2 that are retired: how far that came, and which of them a provider's word
-- retired, at the provider $4, for the code $5, not before $6 and before $7 (NULL: any); with whether a newer registration of
-- the token or of the installation stands in the way of each. The newest come first, so that of several devices of one token
-- or installation it is the last that is restored. An installation may have its newer token in any of the shards $8.
WITH page AS MATERIALIZED (
    SELECT d.id, d.provider_id, d.token, d.installation_id, d.retire_reason, d.retire_code, d.retired_at
    FROM device d
    WHERE d.shard = $1 AND d.id < $2 AND d.retired_at IS NOT NULL
    ORDER BY d.id DESC
    LIMIT $3
), wanted AS MATERIALIZED (
    SELECT d.*, row_number() OVER (PARTITION BY d.provider_id, d.installation_id ORDER BY d.id DESC) AS turn
    FROM page d
    WHERE d.retire_reason = 'unregistered'
      AND ($4::smallint IS NULL OR d.provider_id = $4)
      AND ($5::text IS NULL OR d.retire_code = $5)
      AND ($6::timestamptz IS NULL OR d.retired_at >= $6)
      AND ($7::timestamptz IS NULL OR d.retired_at < $7)
)
SELECT (SELECT min(id) FROM page) AS "until: DeviceId", w.id AS "id?: DeviceId",
       (w.installation_id IS NOT NULL AND w.turn > 1)
       OR EXISTS (SELECT FROM device n WHERE n.shard = $1 AND n.provider_id = w.provider_id AND n.token = w.token
                  AND n.retired_at IS NULL OFFSET 0)
       OR EXISTS (SELECT FROM device n WHERE n.token = w.token AND n.shard = $1 AND n.provider_id = w.provider_id
                  AND n.id > w.id AND n.retired_at IS NOT NULL OFFSET 0)
       OR EXISTS (SELECT FROM device n WHERE n.shard = ANY ($8::smallint[]) AND n.provider_id = w.provider_id
                  AND n.installation_id = w.installation_id AND n.retired_at IS NULL OFFSET 0) AS "superseded!"
FROM (SELECT) AS one
LEFT JOIN wanted w ON true
