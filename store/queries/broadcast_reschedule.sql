-- Has the scheduled broadcast $1 start at $2, or at once where that is NULL or past. What it did not do, and why, can be told from
-- what it returns: the state, whether the start is at most $3 seconds from now, and whether the expiry is $4 to $5 seconds after it.
WITH found AS MATERIALIZED (
    SELECT id, state, expires_at, greatest($2::timestamptz, now()) AS starts_at, expires_after
    FROM broadcast
    WHERE id = $1
    FOR NO KEY UPDATE
), judged AS MATERIALIZED (
    SELECT *, starts_at <= now() + make_interval(secs => $3) AS soon_enough,
           expires_after IS NOT NULL OR expires_at BETWEEN starts_at + make_interval(secs => $4)
                                                       AND starts_at + make_interval(secs => $5) AS in_time
    FROM found
), moved AS (
    UPDATE broadcast b
    SET state = CASE WHEN j.starts_at > now() THEN 'scheduled' ELSE 'accepted' END::broadcast_state,
        scheduled_at = j.starts_at, expires_at = coalesce(j.starts_at + j.expires_after, j.expires_at)
    FROM judged j
    WHERE b.id = j.id AND b.state = 'scheduled' AND j.soon_enough AND j.in_time
    RETURNING b.id
)
SELECT state = 'scheduled' AS "scheduled!", soon_enough AS "soon_enough!", in_time AS "in_time!", now() AS "now!",
       starts_at AS "starts_at!", expires_at, EXISTS (SELECT FROM moved) AS "moved!"
FROM judged
