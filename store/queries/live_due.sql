-- How the users of deliveries stand with their events: the devices $3 in the shard $1, each of the broadcast $2. Those whose user
-- has no event are left out. Seconds are counted by the database's clock. OFFSET 0 keeps the lookups nested loops on keys.
SELECT w.n AS "n!", i.user_no AS "user!: UserNo", i.acked_at IS NOT NULL AS "acknowledged!",
       extract(epoch FROM now() - i.created_at)::float8 AS "age!"
FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY AS w(broadcast_id, device_id, n)
CROSS JOIN LATERAL (SELECT user_id FROM device WHERE shard = $1 AND id = w.device_id OFFSET 0) AS v
CROSS JOIN LATERAL (SELECT id FROM inbox_user WHERE user_id = v.user_id OFFSET 0) AS u
CROSS JOIN LATERAL (
    SELECT user_no, acked_at, created_at FROM inbox WHERE broadcast_id = w.broadcast_id AND user_no = u.id OFFSET 0
) AS i
