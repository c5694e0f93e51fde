-- What a sender needs to make the calls of these broadcasts. Time left is counted by the database's clock.
SELECT id AS "id: BroadcastId", title, body, data AS "data: Json<BTreeMap<String, String>>",
       state = 'cancelling' AS "cancelled!", extract(epoch FROM expires_at - now())::float8 AS "seconds_left!"
FROM broadcast
WHERE id = ANY($1::bigint[])
