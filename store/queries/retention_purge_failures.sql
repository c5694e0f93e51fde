-- Deletes failed attempts of broadcasts from before the day $1, the oldest that has deliveries, and more than $2 days old: at most $3.
DELETE FROM attempt_failure
WHERE ctid = ANY (ARRAY(
    SELECT f.ctid
    FROM attempt_failure f
    WHERE f.broadcast_id < least(broadcast_id_at($1::date::timestamp AT TIME ZONE 'UTC'),
                                 broadcast_id_at(now() - make_interval(days => $2::int)))
    ORDER BY f.broadcast_id, f.shard, f.provider_id, f.device_id, f.slot
    LIMIT $3))
