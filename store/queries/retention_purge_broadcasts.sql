-- Deletes final broadcasts from before the day $1, the oldest that has deliveries, and more than $2 days old, with their tallies:
-- at most $3. One stays as long as anything refers to it: its dead letters, those that it took up, replays of it, inboxes; OFFSET 0
-- has them looked up one by one, not read whole.
DELETE FROM broadcast
WHERE id = ANY (ARRAY(
    SELECT b.id
    FROM broadcast b
    WHERE b.id < least(broadcast_id_at($1::date::timestamp AT TIME ZONE 'UTC'),
                       broadcast_id_at(now() - make_interval(days => $2::int)))
      AND b.settled_at IS NOT NULL
      AND NOT EXISTS (SELECT FROM dead_letter l WHERE l.broadcast_id = b.id OFFSET 0)
      AND NOT EXISTS (SELECT FROM dead_letter l WHERE l.replayed_by = b.id OFFSET 0)
      AND NOT EXISTS (SELECT FROM broadcast r WHERE r.replay_of = b.id OFFSET 0)
      AND NOT EXISTS (SELECT FROM inbox i WHERE i.broadcast_id = b.id OFFSET 0)
    ORDER BY b.id
    LIMIT $3))
