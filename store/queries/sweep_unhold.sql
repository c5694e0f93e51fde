-- Offers the batches of those of the broadcasts $3 that were resumed again: fresh work from where its queue is now, retries when they
-- are due. Those of broadcasts with a rate of their own are taken from where they are: capped_claim.sql.
WITH idle AS MATERIALIZED (
    SELECT b.id
    FROM broadcast br
    CROSS JOIN LATERAL (
        SELECT b.id
        FROM batch b
        WHERE b.broadcast_id = br.id AND b.shard + 0 = $1::smallint AND b.state = 'held'
        LIMIT $2
        FOR UPDATE OF b SKIP LOCKED
    ) AS b
    WHERE br.id = ANY($3::bigint[]) AND br.settled_at IS NULL AND NOT br.paused AND br.state IN ('fanning_out', 'delivering')
      AND br.expires_at > now() AND br.max_rate_per_second IS NULL
)
UPDATE batch b
SET state = CASE b.attempt WHEN 1 THEN 'ready' ELSE 'waiting' END::batch_state,
    rank = greatest(b.rank, p.vtime + 1),
    -- One that fell due meanwhile is due now: nobody looks for what fell due long ago.
    next_attempt_at = greatest(b.next_attempt_at, CASE WHEN b.attempt > 1 THEN now() END)
FROM provider p
WHERE b.shard = $1 AND b.id = ANY (ARRAY(SELECT id FROM idle)) AND p.id = b.provider_id
