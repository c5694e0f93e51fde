-- Looks at up to $4 broadcasts of which something died at provider $1 and which ended at least $2 seconds ago, the one that
-- waited longest first, and makes a round of the slow tier, of at most $3, for each that may have one: an original or a round,
-- not cancelled, not expired. Its key says which round of what it is, so that there is one however many senders look; each
-- broadcast is looked at once. Below shard 0: see the migration 0012.
WITH due AS MATERIALIZED (
    SELECT broadcast_id, provider_id
    FROM broadcast_tally
    WHERE provider_id = $1 AND dead_attempts_exhausted > 0 AND slow_tier_from IS NOT NULL
      AND slow_tier_from <= now() - $2::float8 * interval '1 second'
    ORDER BY slow_tier_from
    LIMIT $4
    FOR UPDATE SKIP LOCKED
), seen AS (
    UPDATE broadcast_tally t
    SET slow_tier_from = NULL
    FROM (SELECT * FROM due OFFSET 0) AS d
    WHERE t.broadcast_id = d.broadcast_id AND t.provider_id = d.provider_id
    RETURNING t.broadcast_id, t.provider_id
), made AS (
    INSERT INTO broadcast (client_id, idempotency_key, request_hash, title, body, data, priority, guarantee, audience, state,
                           expires_at, replay_of, origin_id, replay_reasons, replay_provider, slow_round, fan_out_shard, max_rate_per_second)
    SELECT $5, format('slow:%s:%s:%s', coalesce(o.origin_id, o.id), coalesce(o.slow_round, 0) + 1, seen.provider_id), 'slow/1',
           o.title, o.body, o.data, o.priority, o.guarantee, 'dead_letters', 'accepted', o.expires_at, o.id,
           coalesce(o.origin_id, o.id), '{attempts_exhausted}', seen.provider_id, coalesce(o.slow_round, 0) + 1, -1,
           o.max_rate_per_second
    FROM seen
    CROSS JOIN LATERAL (SELECT * FROM broadcast WHERE id = seen.broadcast_id OFFSET 0) AS o
    WHERE o.state = 'completed' AND o.expires_at > now() + interval '1 second' AND coalesce(o.slow_round, 0) < $3::int
      AND (o.replay_of IS NULL OR o.slow_round IS NOT NULL)
    ON CONFLICT ON CONSTRAINT broadcast_key DO NOTHING
    RETURNING id
)
SELECT (SELECT count(*) FROM due) AS "looked_at!", ARRAY(SELECT id FROM made ORDER BY id) AS "made!"
