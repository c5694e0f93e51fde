-- Events with their numbers, and how many more each of the broadcasts $4 has.
WITH made AS (
    INSERT INTO inbox (user_no, seq, broadcast_id)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])
)
INSERT INTO broadcast_live AS l (broadcast_id, events)
SELECT * FROM unnest($4::bigint[], $5::bigint[])
ON CONFLICT (broadcast_id) DO UPDATE SET events = l.events + EXCLUDED.events
