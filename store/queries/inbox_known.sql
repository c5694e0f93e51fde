-- Those of the users $1 that have a number.
SELECT id AS "id: UserNo", user_id
FROM inbox_user
WHERE user_id = ANY($1::text[])
