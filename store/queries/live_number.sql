-- Takes the next $2 numbers of each of the users $1, who are distinct and in order, and makes those that are not known. In order,
-- since each is locked until the transaction ends.
INSERT INTO inbox_user AS u (user_id, last_seq)
SELECT w.user_id, w.n
FROM unnest($1::text[], $2::bigint[]) AS w(user_id, n)
ORDER BY w.user_id
ON CONFLICT (user_id) DO UPDATE SET last_seq = u.last_seq + EXCLUDED.last_seq
RETURNING u.id AS "id: UserNo", u.user_id, u.last_seq
