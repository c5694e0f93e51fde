SELECT 'provider ' || name AS "subject!",
       'is parked by hand since ' || to_char(parked_since, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ': ' || parked_detail AS "detail!"
FROM provider
WHERE parked_since IS NOT NULL AND parked_by_hand_since = parked_since
ORDER BY name
