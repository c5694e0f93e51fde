-- The first $3 events of each user $1 after the number $2.
SELECT i.user_no AS "user: UserNo", i.seq, i.broadcast_id AS "broadcast: BroadcastId", i.created_at,
       i.acked_at IS NOT NULL AS "acknowledged!", i.read_at IS NOT NULL AS "read!"
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS w(user_no, after, n)
CROSS JOIN LATERAL (SELECT * FROM inbox WHERE user_no = w.user_no AND seq > w.after ORDER BY seq LIMIT $3 OFFSET 0) AS i
ORDER BY w.n, i.seq
