-- What the server has done since its start. Sessions report to these views about once a second, and when they end.
SELECT wal_fpi AS "full_page_images!",
       (SELECT coalesce(sum(n_tup_upd), 0)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'delivery%') AS "updates!",
       (SELECT coalesce(sum(n_tup_hot_upd), 0)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'delivery%') AS "hot_updates!"
FROM pg_stat_wal
