-- Rows of the tables that are written all the time, and what died in them since the last vacuum; the days of delivery as one.
SELECT CASE WHEN relname LIKE 'delivery\_%' THEN 'delivery' ELSE relname::text END AS "table!",
       sum(n_live_tup)::bigint AS "live!", sum(n_dead_tup)::bigint AS "dead!"
FROM pg_stat_user_tables
WHERE schemaname = current_schema()
  AND (relname IN ('batch', 'broadcast', 'dead_letter', 'device', 'provider', 'provider_pace', 'sender')
       OR relname LIKE 'delivery\_%')
GROUP BY 1
ORDER BY 1
