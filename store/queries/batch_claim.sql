-- Leases ready work to $6 for $7 seconds. Per provider of $2: others' leases that ran out and retries that fell due within $14
-- seconds, each up to half of its free deliveries $4, then fresh work in rank order from its floor $5 on, and of that very rank after
-- the batch $13; never more than $3 batches a lane. Whoever has work in hand asks for fresh work up to its rank $11 only, and for
-- retries or not ($12). Providers that are parked or asked for a pause, and broadcasts that were paused or cancelled or have
-- expired, are passed over here, so that these act at once.
--
-- What it holds itself ($9) it renews, and never takes a second time. Leases that ran out are taken only when $8 is not
-- null and Postgres has been up for that many seconds: after it was away, owners that live get time to renew. And only while
-- our last heartbeat that was answered, $10, is recent: a claim that lay in the queue of a server which stood still must not
-- take what ran out meanwhile.
--
-- A batch whose lease ran out three times may end whoever takes it: it waits longer each time, up to a minute.
--
-- The lanes are materialised and the ids an array: a plan that runs a lane's LIMIT twice would lease more than it returns.
-- Rows that others hold are skipped, so a claim never waits. OFFSET 0 keeps each look at a broadcast one by its key.
WITH wanted AS MATERIALIZED (
    SELECT w.provider_id, w.batches, w.deliveries, w.floor, w.after, w.ceiling, w.retries, now() - w.seconds * interval '1 second' AS due_from
    FROM unnest($2::smallint[], $3::int[], $4::int[], $5::bigint[], $13::bigint[], $11::bigint[], $12::boolean[], $14::float8[])
         AS w(provider_id, batches, deliveries, floor, after, ceiling, retries, seconds)
    JOIN provider p ON p.id = w.provider_id
    WHERE p.parked_since IS NULL AND (p.held_until IS NULL OR p.held_until <= now())
), expired AS MATERIALIZED (
    SELECT provider_id, id, size
    FROM (
        SELECT w.provider_id, b.id, b.size, w.deliveries,
               sum(b.size) OVER (PARTITION BY w.provider_id ORDER BY b.lease_expires_at, b.id) - b.size AS before
        FROM wanted w
        CROSS JOIN LATERAL (
            SELECT b.id, b.size, b.lease_expires_at
            FROM batch b
            CROSS JOIN LATERAL (SELECT FROM broadcast br
                                WHERE br.id = b.broadcast_id AND br.state IN ('fanning_out', 'delivering')
                                  AND br.expires_at > now() AND NOT br.paused
                                OFFSET 0) AS br
            WHERE now() - pg_postmaster_start_time() >= $8::float8 * interval '1 second'
              AND $10::timestamptz > now() - interval '1500 milliseconds'
              AND b.shard = $1 AND b.state = 'leased' AND b.lease_expires_at <= now()
              AND (b.reclaims < 3 OR b.lease_expires_at <= now() - least(60, 2 ^ least(b.reclaims, 6)) * interval '1 second')
              AND (b.lease_owner <> $6 OR b.id <> ALL ($9::bigint[]))
              AND b.provider_id = w.provider_id
            ORDER BY b.lease_expires_at
            LIMIT w.batches
            FOR UPDATE OF b SKIP LOCKED
        ) AS b
    ) AS lane
    WHERE before * 2 < deliveries
), due AS MATERIALIZED (
    SELECT provider_id, id, size
    FROM (
        SELECT w.provider_id, b.id, b.size, w.deliveries,
               sum(b.size) OVER (PARTITION BY w.provider_id ORDER BY b.next_attempt_at, b.id) - b.size AS before
        FROM wanted w
        CROSS JOIN LATERAL (
            SELECT b.id, b.size, b.next_attempt_at
            FROM batch b
            CROSS JOIN LATERAL (SELECT FROM broadcast br
                                WHERE br.id = b.broadcast_id AND br.state IN ('fanning_out', 'delivering')
                                  AND br.expires_at > now() AND NOT br.paused
                                OFFSET 0) AS br
            WHERE b.shard = $1 AND b.provider_id = w.provider_id AND b.state = 'waiting'
                  AND b.next_attempt_at > w.due_from AND b.next_attempt_at <= now()
            ORDER BY b.next_attempt_at
            LIMIT CASE WHEN w.retries THEN w.batches ELSE 0 END
            FOR UPDATE OF b SKIP LOCKED
        ) AS b
    ) AS lane
    WHERE before * 2 < deliveries
), fresh AS MATERIALIZED (
    SELECT id
    FROM (
        SELECT b.id, w.deliveries,
               sum(b.size) OVER (PARTITION BY w.provider_id ORDER BY b.rank, b.id) - b.size
               + (SELECT coalesce(sum(t.size), 0)
                  FROM (SELECT provider_id, size FROM expired UNION ALL SELECT provider_id, size FROM due) AS t
                  WHERE t.provider_id = w.provider_id) AS before
        FROM wanted w
        CROSS JOIN LATERAL (
            SELECT b.id, b.size, b.rank
            FROM batch b
            CROSS JOIN LATERAL (SELECT FROM broadcast br
                                WHERE br.id = b.broadcast_id AND br.state IN ('fanning_out', 'delivering')
                                  AND br.expires_at > now() AND NOT br.paused
                                OFFSET 0) AS br
            WHERE b.shard = $1 AND b.provider_id = w.provider_id AND b.state = 'ready'
                  AND (b.rank, b.id) > (w.floor, w.after) AND b.rank <= w.ceiling
            ORDER BY b.rank, b.id
            LIMIT w.batches
            FOR UPDATE OF b SKIP LOCKED
        ) AS b
    ) AS lane
    WHERE before < deliveries
)
UPDATE batch b
SET state = 'leased', lease_owner = $6, lease_epoch = b.lease_epoch + 1,
    lease_expires_at = now() + $7::float8 * interval '1 second',
    next_attempt_at = NULL,
    reclaims = b.reclaims + CASE b.state WHEN 'leased' THEN 1 ELSE 0 END
WHERE b.shard = $1
  AND b.id = ANY (ARRAY(SELECT id FROM expired UNION ALL SELECT id FROM due UNION ALL SELECT id FROM fresh))
RETURNING b.id AS "id: BatchId", b.shard, b.lease_epoch AS epoch, b.broadcast_id AS "broadcast: BroadcastId",
          b.provider_id AS "provider: ProviderId", b.attempt, b.failures, b.rank, b.size, b.reclaims,
          b.device_ids IS NULL AS "ranged!"
