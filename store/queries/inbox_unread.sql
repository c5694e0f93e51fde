-- How many of the newest $2 events that the user $1 has not read are to be shown.
SELECT count(*) AS "count!"
FROM (SELECT broadcast_id FROM inbox WHERE user_no = $1 AND read_at IS NULL ORDER BY seq DESC LIMIT $2) AS i
CROSS JOIN LATERAL (SELECT
                    FROM broadcast
                    WHERE id = i.broadcast_id AND state NOT IN ('cancelling', 'cancelled') AND expires_at > now()
                    OFFSET 0) AS b
