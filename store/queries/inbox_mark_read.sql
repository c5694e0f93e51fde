-- The user $1 has looked at what the broadcasts $2 said to them. Locks in order of number. num_nulls: so that nothing else than the
-- broadcast and the user passes for a way to the rows.
WITH found AS MATERIALIZED (
    SELECT i.seq
    FROM unnest($2::bigint[]) AS w(broadcast_id)
    CROSS JOIN LATERAL (SELECT seq
                        FROM inbox
                        WHERE broadcast_id = w.broadcast_id AND user_no = $1 AND num_nulls(read_at) = 1
                        OFFSET 0) AS i
),
locked AS MATERIALIZED (
    SELECT i.user_no, i.seq
    FROM (SELECT seq FROM found ORDER BY seq) AS f
    CROSS JOIN LATERAL (SELECT user_no, seq
                        FROM inbox
                        WHERE user_no = $1 AND seq = f.seq AND num_nulls(read_at) = 1
                        OFFSET 0
                        FOR UPDATE) AS i
)
UPDATE inbox AS i
SET read_at = now()
FROM locked AS l
WHERE i.user_no = l.user_no AND i.seq = l.seq
