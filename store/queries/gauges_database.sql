-- The database itself. What other roles do is hidden from us without pg_read_all_stats: then their transactions are not counted.
SELECT (SELECT count(*) FROM sender WHERE heartbeat_at > now() - interval '10 seconds') AS "live_senders!",
       pg_database_size(current_database()) AS "bytes!",
       greatest(
           (SELECT extract(epoch FROM now() - min(xact_start)) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND datname = current_database() AND pid <> pg_backend_pid()),
           (SELECT extract(epoch FROM now() - min(prepared)) FROM pg_prepared_xacts WHERE database = current_database()),
           0)::float8 AS "oldest_transaction_seconds!",
       greatest(
           (SELECT max(age(backend_xmin)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()),
           (SELECT max(age(transaction)) FROM pg_prepared_xacts),
           (SELECT max(greatest(age(xmin), age(catalog_xmin))) FROM pg_replication_slots), 0)::bigint AS "oldest_snapshot_age!",
       (SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass('delivery')) AS "partitions!",
       (SELECT count(*) FROM generate_series(timezone('UTC', now())::date, timezone('UTC', now())::date + 2, interval '1 day') AS day
        WHERE to_regclass('delivery_' || to_char(day, 'YYYYMMDD')) IS NULL) AS "missing_partitions!"
