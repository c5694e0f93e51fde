-- A final broadcast of an earlier day, with its tally; returns its id. One that is there from before is taken again.
WITH day AS (
    SELECT date_trunc('day', now()) - make_interval(days => $1::int) + interval '12 hours' AS noon
), made AS (
    INSERT INTO broadcast (id, client_id, idempotency_key, request_hash, title, body, data, priority, audience, state, created_at,
                           expires_at, settled_at)
    SELECT broadcast_id_at(noon) + 1, 'history', 'history-' || $1::int, '', 'title', '', '{}', 'normal', 'everyone', 'completed',
           noon, noon + interval '1 day', noon + interval '1 hour'
    FROM day
    ON CONFLICT DO NOTHING
    RETURNING id
), tally AS (
    INSERT INTO broadcast_tally (broadcast_id, provider_id, total, sent, dead_attempts_exhausted, dead_unregistered,
                                 dead_rejected, expired, skipped, cancelled, retried)
    SELECT id, (SELECT min(provider.id) FROM provider), $2::bigint, $2, 0, 0, 0, 0, 0, 0, 0 FROM made
)
SELECT broadcast_id_at(noon) + 1 AS "id!" FROM day
