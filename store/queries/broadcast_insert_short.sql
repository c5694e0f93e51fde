-- Stores broadcasts to short lists, and makes their deliveries and batches: all of it or nothing, in one statement, since of
-- thousands a second each round trip and each plan counts. One whose key stands already, or whose expiry is out of range by the
-- database's clock ($14 and $15 seconds from now), is left out. In order of the key, so that two groups that have keys in common
-- wait for each other and never both. $16 and $17: the users of the lists, and of the how-manieth broadcast each; $18 and $19: the
-- devices. As in fan_out_page.sql, devices are looked up one by one. One that goes out live alone has no deliveries, and is final:
-- its events are made in the same transaction.
WITH asked AS MATERIALIZED (
    SELECT a.*, coalesce(a.moment, now() + a.seconds * interval '1 second') AS expires_at
    FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::broadcast_priority[],
                $8::audience_kind[], $9::float8[], $10::timestamptz[], $11::int[], $12::delivery_guarantee[], $13::bigint[],
                $21::text[], $22::broadcast_routing[], $23::float8[])
         WITH ORDINALITY AS a(client_id, idempotency_key, request_hash, title, body, data, priority,
                              audience, seconds, moment, listed, guarantee, weight, trace_context, routing, ack_seconds, n)
), stored AS (
    INSERT INTO broadcast (client_id, idempotency_key, request_hash, title, body, data, priority, audience, listed, state,
                           settled_at, expires_at, guarantee, trace_context, routing, ack_timeout)
    SELECT client_id, idempotency_key, request_hash, title, body, data::jsonb, priority, audience, listed,
           CASE routing WHEN 'live' THEN 'completed' ELSE 'delivering' END::broadcast_state, CASE routing WHEN 'live' THEN now() END,
           expires_at, guarantee, trace_context, routing, make_interval(secs => ack_seconds)
    FROM asked a
    WHERE expires_at BETWEEN now() + $14::float8 * interval '1 second' AND now() + $15::float8 * interval '1 second'
      -- Who only reads waits for nobody; the insert would, for a page of the fan-out of the broadcast that stands there.
      AND NOT EXISTS (SELECT FROM broadcast b
                      WHERE b.client_id = a.client_id AND b.idempotency_key = a.idempotency_key OFFSET 0)
    ORDER BY client_id, idempotency_key
    ON CONFLICT ON CONSTRAINT broadcast_key DO NOTHING
    RETURNING id, client_id, idempotency_key, created_at, expires_at
), new AS MATERIALIZED (
    SELECT s.id, s.created_at, s.expires_at, a.n, a.audience, a.weight, a.routing <> 'live' AS pushes
    FROM stored s JOIN asked a ON a.client_id = s.client_id AND a.idempotency_key = s.idempotency_key
), target AS MATERIALIZED (
    SELECT b.n, d.shard, d.provider_id, d.id AS device_id
    FROM unnest($16::text[], $17::bigint[]) AS u(user_id, n)
    CROSS JOIN LATERAL (SELECT n FROM new WHERE new.n = u.n AND new.pushes OFFSET 0) AS b
    CROSS JOIN LATERAL (SELECT * FROM device WHERE user_id = u.user_id OFFSET 0) AS d
    WHERE d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL
    UNION ALL
    SELECT b.n, s.shard, d.provider_id, d.id
    FROM unnest($18::bigint[], $19::bigint[]) AS l(device_id, n)
    CROSS JOIN LATERAL (SELECT n FROM new WHERE new.n = l.n AND new.pushes OFFSET 0) AS b
    CROSS JOIN generate_series(0, (SELECT shards FROM settings) - 1) AS s(shard)
    CROSS JOIN LATERAL (SELECT * FROM device WHERE shard = s.shard::smallint AND id = l.device_id OFFSET 0) AS d
    WHERE d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL
), lists AS (
    INSERT INTO broadcast_audience (broadcast_id, ordinal, user_ids, device_ids)
    SELECT id, 1,
           (SELECT array_agg(u.user_id) FROM unnest($16::text[], $17::bigint[]) AS u(user_id, n) WHERE u.n = new.n),
           (SELECT array_agg(l.device_id) FROM unnest($18::bigint[], $19::bigint[]) AS l(device_id, n) WHERE l.n = new.n)
    FROM new
), made AS (
    INSERT INTO delivery (broadcast_id, shard, provider_id, device_id)
    SELECT b.id, t.shard, t.provider_id, t.device_id
    FROM target t CROSS JOIN LATERAL (SELECT id FROM new WHERE new.n = t.n OFFSET 0) AS b
    ORDER BY 1, 2, 3, 4
), cut AS (
    SELECT n, shard, provider_id, chunk, min(device_id) AS first_id, max(device_id) AS last_id, count(*)::int AS size,
           array_agg(device_id ORDER BY device_id) AS ids
    FROM (SELECT t.*, (row_number() OVER (PARTITION BY n, shard, provider_id ORDER BY device_id) - 1) / $20::int AS chunk
          FROM target t) AS numbered
    GROUP BY n, shard, provider_id, chunk
), batches AS (
    INSERT INTO batch (shard, broadcast_id, provider_id, attempt, state, size, rank, first_device_id, last_device_id, device_ids)
    SELECT c.shard, b.id, c.provider_id, 1, 'ready', c.size,
           -- As in fan_out_page.sql.
           p.vtime + sum(c.size * 1000 / b.weight) OVER (PARTITION BY c.n, c.shard, c.provider_id ORDER BY c.chunk)::bigint,
           CASE WHEN b.audience <> 'users' THEN first_id END, CASE WHEN b.audience <> 'users' THEN last_id END,
           CASE WHEN b.audience = 'users' THEN ids END
    FROM cut c
    CROSS JOIN LATERAL (SELECT * FROM new WHERE new.n = c.n OFFSET 0) AS b
    CROSS JOIN LATERAL (SELECT vtime FROM provider WHERE id = c.provider_id OFFSET 0) AS p
    RETURNING 1
)
SELECT new.n AS "n!", new.id AS "id!: BroadcastId", new.created_at AS "created_at!", new.expires_at AS "expires_at!",
       (SELECT count(*) FROM target t WHERE t.n = new.n) AS "deliveries!"
FROM new
