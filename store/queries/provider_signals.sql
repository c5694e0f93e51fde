-- What all senders heed of a provider. Times are told as distances, since only the database's clock counts.
SELECT id AS "id: ProviderId", parked_since IS NOT NULL AS "parked!", coalesce(probe_at <= now(), false) AS "probe_due!",
       coalesce(doubted_since = parked_since, false) AS "doubted!",
       greatest(extract(epoch FROM held_until - now())::float8, 0) AS "held_seconds",
       extract(epoch FROM now() - resumed_at)::float8 AS "resumed_seconds_ago"
FROM provider
WHERE id = ANY($1::smallint[])
