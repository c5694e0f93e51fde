-- The user $1 has looked at the next $4 events after the number $2, up to $3: how many had not been read, and the last of them.
WITH found AS MATERIALIZED (
    SELECT user_no, seq
    FROM inbox
    WHERE user_no = $1 AND seq > $2 AND seq <= $3 AND read_at IS NULL
    ORDER BY seq
    LIMIT $4
    FOR UPDATE
),
marked AS (
    UPDATE inbox AS i
    SET read_at = now()
    FROM found AS f
    WHERE i.user_no = f.user_no AND i.seq = f.seq
)
SELECT count(*) AS "count!", coalesce(max(seq), 0) AS "last!" FROM found
