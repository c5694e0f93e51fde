-- Those of the users $2 who have no event of the broadcast $1 yet.
SELECT w.user_id AS "user_id!"
FROM unnest($2::text[]) AS w(user_id)
WHERE NOT EXISTS (
    SELECT
    FROM (SELECT id FROM inbox_user WHERE user_id = w.user_id OFFSET 0) AS u
    CROSS JOIN LATERAL (SELECT FROM inbox WHERE broadcast_id = $1 AND user_no = u.id OFFSET 0) AS i
    OFFSET 0)
