-- A broadcast like $3, to its dead letters. Nothing is inserted where the key stands already or $3 is not there. Below shard 0,
-- only who knows what it is narrowed by fans it out: see the migration 0012.
INSERT INTO broadcast (client_id, idempotency_key, request_hash, title, body, data, priority, guarantee, audience, state,
                       expires_at, replay_of, origin_id, replay_reasons, replay_code, replay_provider, replay_from, replay_to,
                       replay_listed, fan_out_shard, max_rate_per_second)
SELECT $1, $2, $4, o.title, o.body, o.data, o.priority, o.guarantee, 'dead_letters', 'accepted',
       now() + $5::float8 * interval '1 second', o.id, coalesce(o.origin_id, o.id), $6, $7, $8, $9, $10, $11,
       CASE WHEN num_nonnulls($9::timestamptz, $10::timestamptz) > 0 OR $11::int > 0 THEN -1 ELSE 0 END, $12
FROM broadcast o
WHERE o.id = $3
ON CONFLICT ON CONSTRAINT broadcast_key DO NOTHING
RETURNING id AS "id: BroadcastId", idempotency_key, title, body, data AS "data: Json<BTreeMap<String, String>>",
          priority AS "priority: Priority", audience AS "audience: AudienceKind", topics, listed, max_rate_per_second,
          state AS "state: BroadcastState", paused, guarantee AS "guarantee: Guarantee",
          routing AS "routing: Routing", extract(epoch FROM ack_timeout)::float8 AS ack_seconds,
          replay_of AS "replay_of: BroadcastId", created_at, expires_at, scheduled_at, settled_at, request_hash
