-- How many devices each provider has that can be called, in the windows of $3 ids after each of $2, of the shards $1. At most $4 are
-- counted in a shard; "more" says that there are perhaps others.
SELECT p.id AS "provider: ProviderId", coalesce(sum(c.n), 0)::bigint AS "devices!", coalesce(bool_or(c.n >= $4), false) AS "more!"
FROM provider p
CROSS JOIN unnest($1::smallint[]) AS s(shard)
CROSS JOIN LATERAL (
    SELECT count(*) AS n
    FROM (
        SELECT
        FROM unnest($2::bigint[]) AS w(after)
        CROSS JOIN LATERAL (SELECT FROM device d
                            WHERE d.shard = s.shard AND d.provider_id = p.id AND d.id > w.after AND d.id <= w.after + $3::bigint
                              AND d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL) AS d
        LIMIT $4::bigint
    ) AS found
    OFFSET 0
) AS c
GROUP BY p.id
