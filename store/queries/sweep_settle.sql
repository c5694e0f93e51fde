-- Settles what is pending in the batches $2 as $3, and closes them.
WITH swept AS MATERIALIZED (
    SELECT s.id, s.state, b.broadcast_id, b.provider_id, b.first_device_id, b.last_device_id, b.device_ids, b.attempt
    FROM unnest($2::bigint[], $3::delivery_state[]) AS s(id, state)
    JOIN batch b ON b.shard = $1 AND b.id = s.id
), ranges AS (
    UPDATE delivery d
    SET state = s.state, settled_at = now(), next_attempt_at = NULL
    FROM swept s
    WHERE d.broadcast_id = s.broadcast_id AND d.shard = $1 AND d.provider_id = s.provider_id
      AND d.device_id BETWEEN s.first_device_id AND s.last_device_id
      AND d.state = 'pending' AND d.attempts = s.attempt - 1
    RETURNING s.id
), listed AS (
    UPDATE delivery d
    SET state = s.state, settled_at = now(), next_attempt_at = NULL
    -- The whole key from one relation: otherwise a plan made while a partition was new leaves device_id out of its index
    -- condition, and reads the whole broadcast for each batch.
    FROM (SELECT s.id, s.state, s.broadcast_id, s.provider_id, s.attempt, l.device_id
          FROM swept s CROSS JOIN unnest(s.device_ids) AS l(device_id)
          OFFSET 0) AS s
    WHERE d.broadcast_id = s.broadcast_id AND d.shard = $1 AND d.provider_id = s.provider_id
      AND d.device_id = s.device_id
      AND d.state = 'pending' AND d.attempts = s.attempt - 1
    RETURNING s.id
), counted AS (
    SELECT s.id, s.state, (SELECT count(*)::int FROM (SELECT id FROM ranges UNION ALL SELECT id FROM listed) AS u
                           WHERE u.id = s.id) AS n
    FROM swept s
)
UPDATE batch b
SET cancelled = b.cancelled + CASE c.state WHEN 'cancelled' THEN c.n ELSE 0 END,
    expired = b.expired + CASE c.state WHEN 'expired' THEN c.n ELSE 0 END,
    state = 'done', next_attempt_at = NULL, lease_owner = NULL, lease_expires_at = NULL
FROM counted c
WHERE b.shard = $1 AND b.id = c.id
RETURNING b.broadcast_id AS "broadcast: BroadcastId", c.n AS "deliveries!"
