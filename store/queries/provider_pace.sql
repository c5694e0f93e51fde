-- Sets the rate $2 of a provider, or none. Returns what it was where it was another.
UPDATE provider_pace p
SET rate_per_second = $2
FROM (SELECT provider_id, rate_per_second FROM provider_pace WHERE provider_id = $1 FOR NO KEY UPDATE) AS before
WHERE p.provider_id = before.provider_id AND before.rate_per_second IS DISTINCT FROM $2::int
RETURNING before.rate_per_second
