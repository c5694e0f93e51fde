-- What a sender needs to make the calls of these broadcasts. Time left is counted by the database's clock.
SELECT id AS "id: BroadcastId", title, body, data AS "data: Json<BTreeMap<String, String>>",
       max_rate_per_second, coalesce(origin_id, id) AS "origin!: BroadcastId", priority AS "priority: Priority",
       state = 'cancelling' AS "cancelled!", paused, guarantee = 'at_most_once' AS "at_most_once!", extract(epoch FROM expires_at - now())::float8 AS "seconds_left!",
       trace_context, extract(epoch FROM ack_timeout)::float8 AS ack_seconds
FROM broadcast
WHERE id = ANY($1::bigint[])
