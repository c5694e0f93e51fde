-- Notes that the users $1 have their events of the broadcasts $2, and returns how many of each broadcast had not been noted yet.
-- Locked in order of user and number; whoever was faster leaves nothing to do.
WITH found AS MATERIALIZED (
    SELECT DISTINCT i.user_no, i.seq
    FROM unnest($1::bigint[], $2::bigint[]) AS w(user_no, broadcast_id)
    CROSS JOIN LATERAL (
        SELECT user_no, seq FROM inbox
        WHERE broadcast_id = w.broadcast_id AND user_no = w.user_no AND acked_at IS NULL
        OFFSET 0
    ) AS i
    ORDER BY i.user_no, i.seq
), locked AS MATERIALIZED (
    SELECT i.user_no, i.seq
    FROM found f
    CROSS JOIN LATERAL (
        SELECT user_no, seq FROM inbox WHERE user_no = f.user_no AND seq = f.seq AND acked_at IS NULL FOR UPDATE
    ) AS i
), acknowledged AS (
    UPDATE inbox i
    SET acked_at = now()
    FROM (SELECT user_no, seq FROM locked OFFSET 0) AS l
    WHERE i.user_no = l.user_no AND i.seq = l.seq
    RETURNING i.broadcast_id
)
SELECT broadcast_id AS "broadcast!: BroadcastId", count(*) AS "events!" FROM acknowledged GROUP BY broadcast_id ORDER BY broadcast_id
