-- Which of the broadcasts $1 are not final yet.
SELECT id FROM broadcast WHERE id = ANY($1::bigint[]) AND settled_at IS NULL ORDER BY id
