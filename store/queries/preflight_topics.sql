-- As preflight_everyone.sql, of the subscribers of the topics $5, each once; at most $4 of each topic and window are looked at.
SELECT p.id AS "provider: ProviderId", coalesce(sum(c.n), 0)::bigint AS "devices!", coalesce(bool_or(c.subscribed >= $4), false) AS "more!"
FROM provider p
CROSS JOIN unnest($1::smallint[]) AS s(shard)
CROSS JOIN LATERAL (
    SELECT count(*) AS subscribed, count(d.callable) AS n
    FROM (
        SELECT DISTINCT t.device_id
        FROM unnest($5::text[]) AS wanted(topic)
        CROSS JOIN unnest($2::bigint[]) AS w(after)
        CROSS JOIN LATERAL (SELECT dt.device_id
                            FROM device_topic dt
                            WHERE dt.topic = wanted.topic AND dt.shard = s.shard AND dt.provider_id = p.id
                              AND dt.device_id > w.after AND dt.device_id <= w.after + $3::bigint
                            ORDER BY dt.device_id
                            LIMIT $4::bigint) AS t
    ) AS u
    LEFT JOIN LATERAL (SELECT true AS callable FROM device d
                       WHERE d.shard = s.shard AND d.provider_id = p.id AND d.id = u.device_id
                         AND d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL
                       OFFSET 0) AS d ON true
    OFFSET 0
) AS c
GROUP BY p.id
