-- Where many are. They are found by device_quarantine, and counted up to a bound.
SELECT 'provider ' || p.name AS "subject!",
       'has ' || CASE WHEN f.n < 100000 THEN '' ELSE 'at least ' END || f.n || ' quarantined devices, the last one since '
       || to_char(f.latest, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' for ' || f.code AS "detail!"
FROM (
    SELECT provider_id, count(*) AS n, max(quarantined_at) AS latest,
           (array_agg(quarantine_code ORDER BY quarantined_at DESC))[1] AS code
    FROM (SELECT provider_id, quarantined_at, quarantine_code FROM device
          WHERE quarantined_at IS NOT NULL AND retired_at IS NULL LIMIT 100000) AS d
    GROUP BY provider_id
) AS f
JOIN provider p ON p.id = f.provider_id
ORDER BY p.name
