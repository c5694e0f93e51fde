-- Nothing is inserted where the key stands already, or where start or expiry are out of range by the database's clock.
-- $9: seconds from its start, or $10: a moment. $13: when it is to start, at most $17 seconds from now; at once where that is past.
INSERT INTO broadcast (client_id, idempotency_key, request_hash, title, body, data, priority, audience, topics, listed,
                       state, expires_at, guarantee, scheduled_at, expires_after, max_rate_per_second, trace_context, routing,
                       ack_timeout)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $11, $12,
       CASE WHEN scheduled_at IS NULL THEN 'accepted' ELSE 'scheduled' END::broadcast_state, expires_at, $16, scheduled_at,
       CASE WHEN scheduled_at IS NOT NULL AND $10 IS NULL THEN make_interval(secs => $9) END, $18, $19, $20,
       make_interval(secs => $21::float8)
FROM (SELECT CASE WHEN $13::timestamptz > now() THEN $13::timestamptz END AS scheduled_at) AS s
CROSS JOIN LATERAL (
    SELECT coalesce(scheduled_at, now()) AS starts_at,
           coalesce($10::timestamptz, coalesce(scheduled_at, now()) + make_interval(secs => $9::float8)) AS expires_at) AS e
WHERE expires_at BETWEEN starts_at + make_interval(secs => $14) AND starts_at + make_interval(secs => $15)
  AND starts_at <= now() + make_interval(secs => $17)
ON CONFLICT ON CONSTRAINT broadcast_key DO NOTHING
RETURNING id AS "id: BroadcastId", idempotency_key, title, body, data AS "data: Json<BTreeMap<String, String>>",
          priority AS "priority: Priority", audience AS "audience: AudienceKind", topics, listed, max_rate_per_second,
          state AS "state: BroadcastState", paused, guarantee AS "guarantee: Guarantee",
          routing AS "routing: Routing", extract(epoch FROM ack_timeout)::float8 AS ack_seconds,
          replay_of AS "replay_of: BroadcastId", created_at, expires_at, scheduled_at, settled_at, request_hash
