-- Providers that nobody calls: parked because they fail or are doubted, or held because they asked for a pause.
SELECT p.name AS "provider!",
       coalesce(extract(epoch FROM now() - p.parked_since), 0)::float8 AS "parked_seconds!",
       coalesce(p.doubted_since = p.parked_since, false) AS "doubted!",
       greatest(extract(epoch FROM p.held_until - now()), 0)::float8 AS "held_seconds!",
       (SELECT rate_per_second FROM provider_pace WHERE provider_id = p.id) AS rate_per_second
FROM provider p
ORDER BY p.name
