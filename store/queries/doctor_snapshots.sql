-- Transactions so old that VACUUM has to keep what they may still see.
SELECT 'session ' || pid AS "subject!",
       format('%s (%s) has a transaction open for %s minutes', coalesce(nullif(application_name, ''), 'unnamed'),
              coalesce(usename, '?'), (extract(epoch FROM now() - xact_start) / 60)::int) AS "detail!"
FROM pg_stat_activity
WHERE xact_start < now() - interval '5 minutes' AND backend_type = 'client backend' AND datname = current_database()
UNION ALL
SELECT 'prepared transaction ' || gid, 'is open since ' || to_char(prepared, 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
FROM pg_prepared_xacts
WHERE prepared < now() - interval '5 minutes' AND database = current_database()
ORDER BY 1
LIMIT 20
