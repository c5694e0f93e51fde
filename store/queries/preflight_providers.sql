-- What stands in the way at each provider, and how fast it is called: its limit, and what the largest of the last 200 broadcasts came
-- to on average, of those that had 1,000 deliveries there. A sender is alive that was heard of in the last 10 s; whether one of them
-- serves the provider is not known where one of a version before does not say what it serves.
SELECT p.id AS "id: ProviderId", p.name, p.kind, p.parked_since IS NOT NULL AS "parked!",
       coalesce(p.held_until > now(), false) AS "held!",
       (SELECT rate_per_second FROM provider_pace WHERE provider_id = p.id) AS rate_per_second,
       (SELECT max(t.total / greatest(extract(epoch FROM b.settled_at - b.created_at), 0.1))::float8
        FROM (SELECT id, created_at, settled_at FROM broadcast
              WHERE state = 'completed' AND max_rate_per_second IS NULL
              ORDER BY id DESC LIMIT 200) AS b
        CROSS JOIN LATERAL (SELECT total FROM broadcast_tally
                            WHERE broadcast_id = b.id AND provider_id = p.id AND total >= 1000
                            OFFSET 0) AS t) AS recent_per_second,
       s.alive AS "senders!", CASE WHEN s.serving THEN true WHEN s.silent = 0 THEN false END AS served
FROM provider p
CROSS JOIN LATERAL (
    SELECT count(*) AS alive, count(*) FILTER (WHERE providers IS NULL) AS silent,
           coalesce(bool_or(p.id = ANY (providers)), false) AS serving
    FROM sender
    WHERE heartbeat_at > now() - interval '10 seconds'
) AS s
ORDER BY p.name
