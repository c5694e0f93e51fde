-- Settles what is pending in the batches $2 as $3, and closes them. What an owner was calling, at most once, when it lost its
-- batch ends unconfirmed.
WITH swept AS MATERIALIZED (
    SELECT s.id, s.state, b.broadcast_id, b.provider_id, b.first_device_id, b.last_device_id, b.device_ids, b.attempt
    FROM unnest($2::bigint[], $3::delivery_state[]) AS s(id, state)
    JOIN batch b ON b.shard = $1 AND b.id = s.id
), ranges AS (
    UPDATE delivery d
    SET state = CASE d.state WHEN 'sending' THEN 'unconfirmed' ELSE s.state END, settled_at = now(), next_attempt_at = NULL,
        attempts = CASE d.state WHEN 'sending' THEN s.attempt ELSE d.attempts END
    FROM swept s
    WHERE d.broadcast_id = s.broadcast_id AND d.shard = $1 AND d.provider_id = s.provider_id
      AND d.device_id BETWEEN s.first_device_id AND s.last_device_id
      AND d.state IN ('pending', 'sending') AND d.attempts = s.attempt - 1
    RETURNING s.id, d.broadcast_id, d.provider_id, d.device_id, d.attempts, d.state = 'unconfirmed' AS unconfirmed
), listed AS (
    UPDATE delivery d
    SET state = CASE d.state WHEN 'sending' THEN 'unconfirmed' ELSE s.state END, settled_at = now(), next_attempt_at = NULL,
        attempts = CASE d.state WHEN 'sending' THEN s.attempt ELSE d.attempts END
    -- The whole key from one relation: otherwise a plan made while a partition was new leaves device_id out of its index
    -- condition, and reads the whole broadcast for each batch.
    FROM (SELECT s.id, s.state, s.broadcast_id, s.provider_id, s.attempt, l.device_id
          FROM swept s CROSS JOIN unnest(s.device_ids) AS l(device_id)
          OFFSET 0) AS s
    WHERE d.broadcast_id = s.broadcast_id AND d.shard = $1 AND d.provider_id = s.provider_id
      AND d.device_id = s.device_id
      AND d.state IN ('pending', 'sending') AND d.attempts = s.attempt - 1
    RETURNING s.id, d.broadcast_id, d.provider_id, d.device_id, d.attempts, d.state = 'unconfirmed' AS unconfirmed
), settled AS (
    SELECT * FROM ranges UNION ALL SELECT * FROM listed
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
FROM counted c
WHERE b.shard = $1 AND b.id = c.id
RETURNING b.broadcast_id AS "broadcast: BroadcastId", c.n + c.unconfirmed AS "deliveries!"
