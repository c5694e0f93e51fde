-- A final broadcast of an earlier day, with its tally; returns its id.
WITH made AS (
    INSERT INTO broadcast (id, client_id, idempotency_key, request_hash, title, body, data, priority, audience, state, created_at,
                           expires_at, settled_at)
    SELECT broadcast_id_at(day) + 1, 'history', 'history-' || $1::int, '', 'title', '', '{}', 'normal', 'everyone', 'completed',
           day, day + interval '1 day', day + interval '1 hour'
    FROM (SELECT date_trunc('day', now()) - make_interval(days => $1::int) + interval '12 hours') AS of (day)
    RETURNING id
), tally AS (
    INSERT INTO broadcast_tally (broadcast_id, provider_id, total, sent, dead_attempts_exhausted, dead_unregistered,
                                 dead_rejected, expired, skipped, cancelled, retried)
    SELECT id, (SELECT min(provider.id) FROM provider), $2::bigint, $2, 0, 0, 0, 0, 0, 0, 0 FROM made
)
SELECT id FROM made
