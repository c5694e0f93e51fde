-- The next row of the broadcast's list of users, after the row $2.
SELECT ordinal::bigint AS "ordinal!", user_ids AS "user_ids!"
FROM broadcast_audience
WHERE broadcast_id = $1 AND ordinal > $2::bigint
ORDER BY ordinal
LIMIT 1
