-- What all senders heed of a provider. Times are told as distances, since only the database's clock counts.
SELECT p.id AS "id: ProviderId", parked_since IS NOT NULL AS "parked!", coalesce(probe_at <= now(), false) AS "probe_due!",
       coalesce(doubted_since = parked_since, false) AS "doubted!",
       greatest(extract(epoch FROM held_until - now())::float8, 0) AS "held_seconds",
       extract(epoch FROM now() - resumed_at)::float8 AS "resumed_seconds_ago",
       (SELECT rate_per_second FROM provider_pace WHERE provider_id = p.id) AS rate_per_second
FROM provider p
WHERE p.id = ANY($1::smallint[])
