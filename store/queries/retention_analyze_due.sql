-- Whether the statistics of delivery as a whole are worth making anew, which autovacuum never does for a partitioned table:
-- they are a day old, or what they know is less than half of what is there by now. Never of an empty one, since plans made for
-- a table that is known to be empty are the worst.
SELECT rows > 0 AND (analyzed IS NULL OR analyzed < now() - interval '1 day'
                     OR (rows > 2 * known AND analyzed < now() - interval '10 minutes')) AS "due!"
FROM (SELECT coalesce(sum(pg_stat_get_live_tuples(inhrelid)), 0) AS rows
      FROM pg_inherits WHERE inhparent = 'delivery'::regclass) AS of_partitions
CROSS JOIN (SELECT pg_stat_get_last_analyze_time(oid) AS analyzed, greatest(reltuples, 0) AS known
            FROM pg_class WHERE oid = 'delivery'::regclass) AS of_all
