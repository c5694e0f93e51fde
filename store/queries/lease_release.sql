-- Gives back what is leased to the sender but not among the leases $3, $4 (batch and epoch): fresh work at the front of its queue, retries due now.
WITH mine AS MATERIALIZED (
    SELECT id FROM batch WHERE shard = $1 AND state = 'leased' AND lease_owner = $2 AND NOT EXISTS (SELECT FROM unnest($3::bigint[], $4::bigint[]) AS k(id, epoch) WHERE k.id = batch.id AND k.epoch = lease_epoch)
    ORDER BY id FOR UPDATE
)
UPDATE batch b
SET state = CASE b.attempt WHEN 1 THEN 'ready' ELSE 'waiting' END::batch_state,
    next_attempt_at = CASE WHEN b.attempt > 1 THEN now() END,
    rank = greatest(b.rank, p.vtime + 1),
    lease_owner = NULL, lease_expires_at = NULL
FROM provider p
WHERE b.shard = $1 AND b.id = ANY (ARRAY(SELECT id FROM mine)) AND p.id = b.provider_id
