-- The next $2 of those who were ever connected, or got an event, after the number $1.
SELECT id AS "id: UserNo", user_id FROM inbox_user WHERE id > $1 ORDER BY id LIMIT $2
