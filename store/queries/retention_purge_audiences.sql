-- Deletes explicit audiences of final broadcasts from before the day $1, the oldest that has deliveries, and more than $2 days
-- old: at most $3 rows, each of up to 10,000 ids.
DELETE FROM broadcast_audience
WHERE ctid = ANY (ARRAY(
    SELECT a.ctid
    FROM broadcast_audience a
    WHERE a.broadcast_id < least(broadcast_id_at($1::date::timestamp AT TIME ZONE 'UTC'),
                                 broadcast_id_at(now() - make_interval(days => $2::int)))
      AND (SELECT settled_at IS NOT NULL FROM broadcast WHERE id = a.broadcast_id)
    ORDER BY a.broadcast_id, a.ordinal
    LIMIT $3))
