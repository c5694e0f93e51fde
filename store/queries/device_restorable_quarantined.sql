-- Of the next $3 devices of the shard $1 before $2 that are quarantined: how far that came, and which of them are so at the
-- provider $4, for the code $5, not before $6 and before $7 (NULL: any). They are live, so nothing stands in their way.
WITH page AS MATERIALIZED (
    SELECT d.id, d.provider_id, d.quarantine_code, d.quarantined_at
    FROM device d
    WHERE d.shard = $1 AND d.id < $2 AND d.quarantined_at IS NOT NULL AND d.retired_at IS NULL
    ORDER BY d.id DESC
    LIMIT $3
)
SELECT (SELECT min(id) FROM page) AS "until: DeviceId", w.id AS "id?: DeviceId", false AS "superseded!"
FROM (SELECT) AS one
LEFT JOIN page w ON ($4::smallint IS NULL OR w.provider_id = $4)
                AND ($5::text IS NULL OR w.quarantine_code = $5)
                AND ($6::timestamptz IS NULL OR w.quarantined_at >= $6)
                AND ($7::timestamptz IS NULL OR w.quarantined_at < $7)
