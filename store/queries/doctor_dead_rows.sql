-- Small hot tables that hold mostly dead rows: every claim reads past them.
SELECT 'table ' || relname AS "subject!",
       n_dead_tup || ' dead rows beside ' || n_live_tup || ' live ones, last vacuumed '
       || coalesce(to_char(greatest(last_vacuum, last_autovacuum), 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'never') AS "detail!"
FROM pg_stat_user_tables
WHERE relname IN ('batch', 'broadcast', 'provider', 'sender') AND n_dead_tup > 50000 AND n_dead_tup > 5 * n_live_tup
ORDER BY 1
