-- What comes after the last event that a client has: for each user $1 with its epoch $2 and number $3, the events after it among the
-- last $4 numbers, in order. Where there is no such event, those among them that nobody acknowledged. All of one snapshot, with the
-- last number that the user had in it; without events a row that says so. By numbers, not by a LIMIT: so no plan reads more of a full
-- inbox.
SELECT w.n AS "n!", s.inbox_epoch AS "epoch!", coalesce(u.last_seq, 0) AS "last_seq!", a.known AS "known!",
       i.seq AS "seq?", i.broadcast_id AS "broadcast?: BroadcastId", i.created_at AS "created_at?",
       i.acked_at IS NOT NULL AS "acknowledged!", i.read_at IS NOT NULL AS "read!"
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS w(user_no, epoch, seq, n)
CROSS JOIN settings AS s
LEFT JOIN LATERAL (SELECT last_seq FROM inbox_user WHERE id = w.user_no OFFSET 0) AS u ON true
CROSS JOIN LATERAL (SELECT w.epoch = s.inbox_epoch AND w.seq <= coalesce(u.last_seq, 0) AS known OFFSET 0) AS a
LEFT JOIN LATERAL (SELECT *
                   FROM inbox
                   WHERE user_no = w.user_no AND seq > greatest(CASE WHEN a.known THEN w.seq END, u.last_seq - $4)
                   OFFSET 0) AS i ON a.known OR i.acked_at IS NULL
ORDER BY w.n, i.seq
