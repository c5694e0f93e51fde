-- Nothing is inserted where the key stands already, or where the expiry is out of range by the database's clock.
-- $9: seconds from now, or $10: a moment.
INSERT INTO broadcast (client_id, idempotency_key, request_hash, title, body, data, priority, audience, topics, listed,
                       state, expires_at, guarantee)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $11, $12, $13, expires_at, $16
FROM (SELECT coalesce($10::timestamptz, now() + $9::float8 * interval '1 second') AS expires_at) AS e
WHERE expires_at BETWEEN now() + $14::float8 * interval '1 second' AND now() + $15::float8 * interval '1 second'
ON CONFLICT ON CONSTRAINT broadcast_key DO NOTHING
RETURNING id AS "id: BroadcastId", idempotency_key, title, body, data AS "data: Json<BTreeMap<String, String>>",
          priority AS "priority: Priority", audience AS "audience: AudienceKind", topics, listed,
          state AS "state: BroadcastState", paused, guarantee AS "guarantee: Guarantee",
          replay_of AS "replay_of: BroadcastId", created_at, expires_at, settled_at, request_hash
