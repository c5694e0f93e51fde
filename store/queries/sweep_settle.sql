-- Settles what is pending in the batches $2 as $3, and closes them. What an owner was calling, at most once, when it lost its
-- batch ends unconfirmed. Looked up first, by lookups that no statistics can turn into reading the whole broadcast, and then
-- updated by the whole key.
WITH swept AS MATERIALIZED (
    SELECT s.id, s.state, b.broadcast_id, b.provider_id, b.first_device_id, b.last_device_id, b.device_ids, b.attempt
    FROM (SELECT $1::smallint AS shard, s.* FROM unnest($2::bigint[], $3::delivery_state[]) AS s(id, state) OFFSET 0) AS s
    JOIN batch b ON b.shard = s.shard AND b.id = s.id
), open AS MATERIALIZED (
    SELECT s.id, s.state, s.attempt, s.broadcast_id, s.provider_id, d.device_id
    FROM swept s
    CROSS JOIN LATERAL (
        SELECT d.device_id
        FROM delivery d
        WHERE d.broadcast_id = s.broadcast_id AND d.shard = $1 AND d.provider_id = s.provider_id
          AND d.device_id BETWEEN s.first_device_id AND s.last_device_id
          AND d.state IN ('pending', 'sending') AND d.attempts = s.attempt - 1
        OFFSET 0
    ) AS d
    WHERE s.device_ids IS NULL
    UNION ALL
    SELECT s.id, s.state, s.attempt, s.broadcast_id, s.provider_id, l.device_id
    FROM swept s
    CROSS JOIN LATERAL unnest(s.device_ids) AS l(device_id)
), settled AS (
    UPDATE delivery d
    SET state = CASE d.state WHEN 'sending' THEN 'unconfirmed' ELSE o.state END, settled_at = now(), next_attempt_at = NULL,
        attempts = CASE d.state WHEN 'sending' THEN o.attempt ELSE d.attempts END
    FROM (SELECT $1::smallint AS shard, open.* FROM open OFFSET 0) AS o
    WHERE d.broadcast_id = o.broadcast_id AND d.shard = o.shard AND d.provider_id = o.provider_id
      AND d.device_id = o.device_id
      AND d.state IN ('pending', 'sending') AND d.attempts = o.attempt - 1
    RETURNING o.id, d.broadcast_id, d.provider_id, d.device_id, d.attempts, d.state = 'unconfirmed' AS unconfirmed
), letters AS (
    INSERT INTO dead_letter (shard, broadcast_id, provider_id, device_id, attempts, reason, code, detail)
    SELECT $1, broadcast_id, provider_id, device_id, attempts, 'unconfirmed', 'interrupted', ''
    FROM settled
    WHERE unconfirmed
), counted AS (
    SELECT s.id, s.state, count(u.id) FILTER (WHERE NOT u.unconfirmed)::int AS n,
           count(u.id) FILTER (WHERE u.unconfirmed)::int AS unconfirmed
    FROM swept s LEFT JOIN settled u ON u.id = s.id
    GROUP BY s.id, s.state
)
UPDATE batch b
SET cancelled = b.cancelled + CASE c.state WHEN 'cancelled' THEN c.n ELSE 0 END,
    expired = b.expired + CASE c.state WHEN 'expired' THEN c.n ELSE 0 END,
    unconfirmed = b.unconfirmed + c.unconfirmed,
    state = 'done', next_attempt_at = NULL, lease_owner = NULL, lease_expires_at = NULL
FROM (SELECT $1::smallint AS shard, counted.* FROM counted OFFSET 0) AS c
WHERE b.shard = c.shard AND b.id = c.id
RETURNING b.broadcast_id AS "broadcast: BroadcastId", c.n + c.unconfirmed AS "deliveries!"
