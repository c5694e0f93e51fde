-- Gives back what is leased to the sender but not among $3: fresh work at the front of its queue, retries due now.
WITH mine AS MATERIALIZED (
    SELECT id FROM batch WHERE shard = $1 AND state = 'leased' AND lease_owner = $2 AND id <> ALL ($3::bigint[])
    ORDER BY id FOR UPDATE
)
UPDATE batch b
SET state = CASE b.attempt WHEN 1 THEN 'ready' ELSE 'waiting' END::batch_state,
    next_attempt_at = CASE WHEN b.attempt > 1 THEN now() END,
    rank = greatest(b.rank, p.vtime),
    lease_owner = NULL, lease_expires_at = NULL
FROM provider p
WHERE b.shard = $1 AND b.id = ANY (ARRAY(SELECT id FROM mine)) AND p.id = b.provider_id
