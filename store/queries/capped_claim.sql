-- Leases work of broadcasts with a rate of their own to $5 for $6 seconds: of each of $2 up to $3 deliveries, of the providers $4
-- that are neither parked nor held. Due retries first, up to half of it, then fresh work by rank. What is larger than that is cut:
-- its beginning becomes a batch of its own, and the rest stays where it is.
--
-- As in batch_claim.sql, what others hold is skipped, and each lane is materialised, so that its LIMIT runs once.
WITH wanted AS MATERIALIZED (
    SELECT w.broadcast_id, w.most, p.id AS provider_id, p.vtime,
           CASE br.priority WHEN 'low' THEN 1000 WHEN 'normal' THEN 250 ELSE 62 END AS step
    FROM unnest($2::bigint[], $3::int[]) AS w(broadcast_id, most)
    CROSS JOIN LATERAL (SELECT priority FROM broadcast br
                        WHERE br.id = w.broadcast_id AND br.state IN ('fanning_out', 'delivering')
                          AND br.expires_at > now() AND NOT br.paused
                        OFFSET 0) AS br
    CROSS JOIN (SELECT id, vtime FROM provider
                WHERE id = ANY ($4::smallint[]) AND parked_since IS NULL AND (held_until IS NULL OR held_until <= now())
                OFFSET 0) AS p
    WHERE w.most > 0
), due AS MATERIALIZED (
    SELECT broadcast_id, id, left_in, vtime, step, least(left_in, (most + 1) / 2 - before)::int AS n
    FROM (
        SELECT w.*, b.id, b.left_in,
               sum(b.left_in) OVER (PARTITION BY w.broadcast_id ORDER BY b.next_attempt_at, b.id) - b.left_in AS before
        FROM wanted w
        CROSS JOIN LATERAL (
            SELECT b.id, b.size - b.accounted AS left_in, b.next_attempt_at
            FROM batch b
            WHERE b.broadcast_id = w.broadcast_id AND b.shard = $1 AND b.provider_id = w.provider_id AND b.state = 'held'
              AND b.next_attempt_at <= now()
            ORDER BY b.next_attempt_at
            LIMIT least(w.most, 64)
            FOR UPDATE OF b SKIP LOCKED
        ) AS b
    ) AS lane
    WHERE before < (most + 1) / 2
), fresh AS MATERIALIZED (
    SELECT broadcast_id, id, left_in, vtime, step, least(left_in, most - before)::int AS n
    FROM (
        SELECT w.*, b.id, b.left_in,
               sum(b.left_in) OVER (PARTITION BY w.broadcast_id ORDER BY b.rank, b.id) - b.left_in
               + (SELECT coalesce(sum(d.n), 0) FROM due d WHERE d.broadcast_id = w.broadcast_id) AS before
        FROM wanted w
        CROSS JOIN LATERAL (
            SELECT b.id, b.size - b.accounted AS left_in, b.rank
            FROM batch b
            WHERE b.broadcast_id = w.broadcast_id AND b.shard = $1 AND b.provider_id = w.provider_id AND b.state = 'held'
              AND b.next_attempt_at IS NULL
            ORDER BY b.next_attempt_at, b.rank
            LIMIT least(w.most, 64)
            FOR UPDATE OF b SKIP LOCKED
        ) AS b
    ) AS lane
    WHERE before < most
), taken AS MATERIALIZED (
    -- Some batches may have nothing left, when they are to be closed and no more.
    SELECT id, left_in, n, vtime, step FROM due
    UNION ALL
    SELECT id, left_in, n, vtime, step FROM fresh
), cut AS MATERIALIZED (
    -- The beginning of what is larger: up to the n-th delivery that is left.
    SELECT t.id, t.n, t.vtime, t.step, b.broadcast_id, b.provider_id, b.attempt, b.failures, b.size, b.rank, b.first_device_id,
           b.device_ids, d.last_id
    FROM taken t
    CROSS JOIN LATERAL (SELECT * FROM batch WHERE shard = $1 AND id = t.id OFFSET 0) AS b
    CROSS JOIN LATERAL (
        SELECT max(d.device_id) AS last_id
        FROM (
            SELECT d.device_id
            FROM delivery d
            WHERE b.device_ids IS NULL AND d.broadcast_id = b.broadcast_id AND d.shard = $1 AND d.provider_id = b.provider_id
              AND d.device_id BETWEEN b.first_device_id AND b.last_device_id
              AND d.state IN ('pending', 'sending') AND d.attempts = b.attempt - 1
            ORDER BY d.device_id
            LIMIT t.n
        ) AS d
        UNION ALL
        SELECT max(d.device_id)
        FROM (
            SELECT l.device_id
            FROM unnest(b.device_ids) AS l(device_id)
            CROSS JOIN LATERAL (SELECT FROM delivery d
                                WHERE d.broadcast_id = b.broadcast_id AND d.shard = $1 AND d.provider_id = b.provider_id
                                  AND d.device_id = l.device_id
                                  AND d.state IN ('pending', 'sending') AND d.attempts = b.attempt - 1
                                OFFSET 0) AS d
            ORDER BY l.device_id
            LIMIT t.n
        ) AS d
    ) AS d
    WHERE t.n < t.left_in AND d.last_id IS NOT NULL
), heads AS (
    INSERT INTO batch (shard, broadcast_id, provider_id, attempt, failures, state, size, rank, first_device_id, last_device_id,
                       device_ids, lease_owner, lease_epoch, lease_expires_at)
    -- A batch ends at its rank, and its deliveries are evenly apart.
    SELECT $1, broadcast_id, provider_id, attempt, failures, 'leased', n, greatest(rank - (size - n) * step, vtime),
           CASE WHEN device_ids IS NULL THEN first_device_id END, CASE WHEN device_ids IS NULL THEN last_id END,
           (SELECT array_agg(l.id ORDER BY l.id) FROM unnest(device_ids) AS l(id) WHERE l.id <= last_id),
           $5, 1, now() + $6::float8 * interval '1 second'
    FROM cut
    RETURNING id, shard, lease_epoch, broadcast_id, provider_id, attempt, failures, rank, size, reclaims, device_ids
), rests AS (
    UPDATE batch b
    SET size = b.size - c.n,
        first_device_id = CASE WHEN b.device_ids IS NULL THEN c.last_id + 1 END,
        device_ids = (SELECT array_agg(l.id ORDER BY l.id) FROM unnest(b.device_ids) AS l(id) WHERE l.id > c.last_id)
    FROM (SELECT $1::smallint AS shard, cut.* FROM cut OFFSET 0) AS c
    WHERE b.shard = c.shard AND b.id = c.id
), whole AS (
    UPDATE batch b
    SET state = 'leased', lease_owner = $5, lease_epoch = b.lease_epoch + 1,
        lease_expires_at = now() + $6::float8 * interval '1 second', next_attempt_at = NULL, rank = greatest(b.rank, t.vtime)
    FROM (SELECT $1::smallint AS shard, taken.* FROM taken WHERE n = left_in OFFSET 0) AS t
    WHERE b.shard = t.shard AND b.id = t.id
    RETURNING b.id, b.shard, b.lease_epoch, b.broadcast_id, b.provider_id, b.attempt, b.failures, b.rank, b.size, b.reclaims,
              b.device_ids
)
SELECT l.id AS "id!: BatchId", l.shard AS "shard!", l.lease_epoch AS "epoch!", l.broadcast_id AS "broadcast!: BroadcastId",
       l.provider_id AS "provider!: ProviderId", l.attempt AS "attempt!", l.failures AS "failures!", l.rank AS "rank!",
       l.size AS "size!", l.reclaims AS "reclaims!", l.device_ids IS NULL AS "ranged!"
FROM (SELECT * FROM heads UNION ALL SELECT * FROM whole) AS l
