-- Deletes dead letters of broadcasts from before the day $1, the oldest that has deliveries, and more than $2 days old: at most
-- $3. Those that a replay is just taking up stay until it is final.
DELETE FROM dead_letter
WHERE ctid = ANY (ARRAY(
    SELECT l.ctid
    FROM dead_letter l
    WHERE l.broadcast_id < least(broadcast_id_at($1::date::timestamp AT TIME ZONE 'UTC'),
                                 broadcast_id_at(now() - make_interval(days => $2::int)))
      AND NOT EXISTS (SELECT FROM broadcast r WHERE r.replay_of = l.broadcast_id AND r.settled_at IS NULL OFFSET 0)
    ORDER BY l.broadcast_id, l.shard, l.provider_id, l.device_id
    LIMIT $3))
