SELECT id AS "id: BroadcastId", request_hash
FROM broadcast
WHERE client_id = $1 AND idempotency_key = $2
