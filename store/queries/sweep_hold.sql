-- Takes the batches that nobody works on, of those of the broadcasts $3 that are paused or have ended, out of the queue: left in it,
-- claims would read past them. Those of ended ones are settled from there, which takes longer. So does it with those of broadcasts with a
-- rate of their own: their retries, and what was given back.
WITH idle AS MATERIALIZED (
    SELECT b.id
    FROM broadcast br
    CROSS JOIN LATERAL (
        SELECT b.id
        FROM batch b
        WHERE b.broadcast_id = br.id AND b.shard + 0 = $1::smallint AND b.state <> 'done'
          AND (b.state IN ('ready', 'waiting')
               OR b.state = 'leased' AND b.lease_expires_at <= now() - interval '5 seconds'
                  AND (br.paused OR br.state = 'cancelling' OR br.expires_at <= now()))
        LIMIT $2
        FOR UPDATE OF b SKIP LOCKED
    ) AS b
    WHERE br.id = ANY($3::bigint[]) AND br.settled_at IS NULL
      AND (br.paused OR br.state = 'cancelling' OR br.expires_at <= now() OR br.max_rate_per_second IS NOT NULL)
)
UPDATE batch b
SET state = 'held', lease_owner = NULL, lease_expires_at = NULL,
    -- A retry stays due when it was.
    next_attempt_at = CASE WHEN b.attempt > 1 THEN coalesce(b.next_attempt_at, now()) END
WHERE b.shard = $1 AND b.id = ANY (ARRAY(SELECT id FROM idle))
