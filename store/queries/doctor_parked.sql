SELECT 'provider ' || name AS "subject!",
       'fails as a whole since ' || to_char(parked_since, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ': ' || parked_code || ' '
       || parked_detail AS "detail!"
FROM provider
WHERE parked_since IS NOT NULL AND doubted_since IS DISTINCT FROM parked_since
  AND parked_by_hand_since IS DISTINCT FROM parked_since
ORDER BY name
