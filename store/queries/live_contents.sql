-- What the broadcasts $1 say to a user.
SELECT id AS "id: BroadcastId", coalesce(origin_id, id) AS "notification!: BroadcastId", title, body,
       data AS "data: Json<BTreeMap<String, String>>", expires_at,
       state IN ('cancelling', 'cancelled') OR expires_at <= now() AS "over!"
FROM broadcast
WHERE id = ANY($1::bigint[])
