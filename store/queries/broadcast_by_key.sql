SELECT id AS "id: BroadcastId", idempotency_key, title, body, data AS "data: Json<BTreeMap<String, String>>",
       priority AS "priority: Priority", audience AS "audience: AudienceKind", topics, listed, max_rate_per_second,
       state AS "state: BroadcastState", paused, guarantee AS "guarantee: Guarantee",
       routing AS "routing: Routing", extract(epoch FROM ack_timeout)::float8 AS ack_seconds,
       replay_of AS "replay_of: BroadcastId", created_at, expires_at, scheduled_at, settled_at, request_hash
FROM broadcast
WHERE client_id = $1 AND idempotency_key = $2
