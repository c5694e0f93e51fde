-- Leases one batch of the parked provider $2 to $3 for $4 seconds, to try whether the provider works again: fresh work,
-- else the retry that is due longest, else a lease that ran out, of others or not held ($6), while our last heartbeat $5 is
-- recent (see batch_claim.sql).
-- Fresh work first, since a retry may fail by its device. Where nothing else is left, work of a broadcast with a rate of its own.
WITH fresh AS MATERIALIZED (
    SELECT b.id
    FROM batch b
    CROSS JOIN LATERAL (SELECT FROM broadcast br
                        WHERE br.id = b.broadcast_id AND br.state IN ('fanning_out', 'delivering')
                          AND br.expires_at > now() AND NOT br.paused
                        OFFSET 0) AS br
    WHERE b.shard = $1 AND b.provider_id = $2 AND b.state = 'ready' AND b.rank >= 0
    ORDER BY b.rank, b.id
    LIMIT 1
    FOR UPDATE OF b SKIP LOCKED
), due AS MATERIALIZED (
    SELECT b.id
    FROM batch b
    CROSS JOIN LATERAL (SELECT FROM broadcast br
                        WHERE br.id = b.broadcast_id AND br.state IN ('fanning_out', 'delivering')
                          AND br.expires_at > now() AND NOT br.paused
                        OFFSET 0) AS br
    WHERE NOT EXISTS (SELECT FROM fresh)
      AND b.shard = $1 AND b.provider_id = $2 AND b.state = 'waiting' AND b.next_attempt_at <= now()
    ORDER BY b.next_attempt_at
    LIMIT 1
    FOR UPDATE OF b SKIP LOCKED
), expired AS MATERIALIZED (
    SELECT b.id
    FROM batch b
    CROSS JOIN LATERAL (SELECT FROM broadcast br
                        WHERE br.id = b.broadcast_id AND br.state IN ('fanning_out', 'delivering')
                          AND br.expires_at > now() AND NOT br.paused
                        OFFSET 0) AS br
    WHERE NOT EXISTS (SELECT FROM fresh) AND NOT EXISTS (SELECT FROM due)
      AND $5::timestamptz > now() - interval '1500 milliseconds'
      AND (b.lease_owner <> $3 OR b.id <> ALL ($6::bigint[]))
      AND b.shard = $1 AND b.provider_id = $2 AND b.state = 'leased' AND b.lease_expires_at <= now()
    ORDER BY b.lease_expires_at
    LIMIT 1
    FOR UPDATE OF b SKIP LOCKED
), capped AS MATERIALIZED (
    SELECT b.id
    FROM (SELECT id FROM broadcast
          WHERE max_rate_per_second IS NOT NULL AND settled_at IS NULL AND state IN ('fanning_out', 'delivering')
            AND expires_at > now() AND NOT paused
          OFFSET 0) AS br
    CROSS JOIN LATERAL (SELECT b.id FROM batch b
                        WHERE b.broadcast_id = br.id AND b.shard = $1 AND b.provider_id = $2 AND b.state = 'held'
                          AND (b.next_attempt_at IS NULL OR b.next_attempt_at <= now())
                        LIMIT 1
                        FOR UPDATE OF b SKIP LOCKED) AS b
    WHERE NOT EXISTS (SELECT FROM fresh) AND NOT EXISTS (SELECT FROM due) AND NOT EXISTS (SELECT FROM expired)
    LIMIT 1
)
UPDATE batch b
SET state = 'leased', lease_owner = $3, lease_epoch = b.lease_epoch + 1,
    lease_expires_at = now() + $4::float8 * interval '1 second',
    next_attempt_at = NULL,
    reclaims = b.reclaims + CASE b.state WHEN 'leased' THEN 1 ELSE 0 END
WHERE b.shard = $1
  AND b.id = ANY (ARRAY(SELECT id FROM fresh UNION ALL SELECT id FROM due UNION ALL SELECT id FROM expired
                        UNION ALL SELECT id FROM capped))
RETURNING b.id AS "id: BatchId", b.shard, b.lease_epoch AS epoch, b.broadcast_id AS "broadcast: BroadcastId",
          b.provider_id AS "provider: ProviderId", b.attempt, b.failures, b.rank, b.size, b.reclaims,
          b.device_ids IS NULL AS "ranged!"
