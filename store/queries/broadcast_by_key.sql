SELECT id AS "id: BroadcastId", idempotency_key, title, body, data AS "data: Json<BTreeMap<String, String>>",
       priority AS "priority: Priority", audience AS "audience: AudienceKind", topics, listed,
       state AS "state: BroadcastState", created_at, expires_at, settled_at, request_hash
FROM broadcast
WHERE client_id = $1 AND idempotency_key = $2
