-- The day partitions of delivery, oldest first: those in it, and tables of such a name that are no longer. Kept for $1 days;
-- $2 is what ours are marked with on their way out.
WITH partition AS (
    SELECT c.oid, c.relname::text AS name, to_date(right(c.relname, 8), 'YYYYMMDD') AS day, c.reltuples,
           i.inhrelid IS NOT NULL AS attached, coalesce(i.inhdetachpending, false) AS half_way,
           coalesce(obj_description(c.oid, 'pg_class') = $2::text, false) AS marked
    FROM pg_class c
    LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = 'delivery'::regclass
    WHERE c.relkind = 'r' AND c.relname ~ '^delivery_[0-9]{8}$'
      AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'delivery'::regclass)
)
SELECT name AS "name!", day AS "day!", attached AS "attached!", half_way AS "half_way!", marked AS "marked!",
       -- The youngest broadcast of the day is that old; one that was scheduled is as old as its start, which may be to come.
       day + 1 + $1::int <= timezone('UTC', now())::date
           AND NOT EXISTS (SELECT FROM broadcast
                           WHERE scheduled_at IS NOT NULL
                             AND id >= broadcast_id_at(day::timestamp AT TIME ZONE 'UTC')
                             AND id < broadcast_id_at((day + 1)::timestamp AT TIME ZONE 'UTC')
                             -- One that ended before its start has no deliveries.
                             AND (settled_at IS NULL OR fan_out_page_at IS NOT NULL)
                             AND timezone('UTC', scheduled_at)::date + 1 + $1::int > timezone('UTC', now())::date) AS "past!",
       CASE WHEN reltuples >= 0 THEN reltuples::bigint ELSE pg_stat_get_live_tuples(oid) END AS "rows!",
       open.broadcasts AS "open!", open.first AS "first_open: BroadcastId"
FROM partition
CROSS JOIN LATERAL (
    SELECT count(*) AS broadcasts, min(id) AS first
    FROM broadcast
    WHERE settled_at IS NULL AND id >= broadcast_id_at(day::timestamp AT TIME ZONE 'UTC')
      AND id < broadcast_id_at((day + 1)::timestamp AT TIME ZONE 'UTC')
) AS open
ORDER BY day
