-- Starts up to $1 scheduled broadcasts whose time has come, the one that waited longest first: whoever holds a row starts it, and
-- everybody else passes it over. One that has expired by now is final at once, with no delivery. NO KEY, as in fan_out_pick.sql.
WITH due AS MATERIALIZED (
    SELECT id
    FROM broadcast
    WHERE scheduled_at <= now() AND fan_out_page_at IS NULL AND settled_at IS NULL AND state = 'scheduled'
    ORDER BY scheduled_at
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE broadcast
SET state = CASE WHEN expires_at <= now() THEN 'completed' ELSE 'accepted' END::broadcast_state,
    settled_at = CASE WHEN expires_at <= now() THEN now() END,
    paused = paused AND expires_at > now()
WHERE id = ANY (ARRAY(SELECT id FROM due))
RETURNING id AS "id: BroadcastId", settled_at IS NOT NULL AS "expired!",
          extract(epoch FROM now() - scheduled_at)::float8 AS "late_seconds!"
