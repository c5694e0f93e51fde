-- Numbers for the users $1, who had none a moment ago. In order, like whoever else makes several.
INSERT INTO inbox_user (user_id)
SELECT w.user_id
FROM unnest($1::text[]) AS w(user_id)
ORDER BY w.user_id
ON CONFLICT (user_id) DO NOTHING
RETURNING id AS "id: UserNo", user_id
