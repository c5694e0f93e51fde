SELECT id AS "id: ProviderId", name, kind, CASE WHEN held_until > now() THEN held_until END AS held_until,
       parked_since, parked_code, parked_detail, probe_at, probes_failed, coalesce(doubted_since = parked_since, false) AS "doubted!",
       coalesce(parked_by_hand_since = parked_since, false) AS "by_hand!"
FROM provider
ORDER BY name
