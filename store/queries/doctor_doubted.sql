SELECT 'provider ' || name AS "subject!",
       'calls so many tokens gone since ' || to_char(parked_since, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' that it is parked: '
       || parked_detail AS "detail!"
FROM provider
WHERE parked_since IS NOT NULL AND doubted_since = parked_since AND parked_by_hand_since IS DISTINCT FROM parked_since
ORDER BY name
