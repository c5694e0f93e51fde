-- At most once: notes that the deliveries ($5, $6: batch and device) are about to be called, under the leases ($3, $4: batch
-- and epoch) of sender $2, and returns which of them may be. `sending` here is what this statement wrote before and whose
-- answer was lost: what an owner before left so is never asked for.
WITH mine AS MATERIALIZED (
    SELECT b.id, b.broadcast_id, b.provider_id, b.attempt
    FROM (SELECT $1::smallint AS shard, h.* FROM unnest($3::bigint[], $4::bigint[]) AS h(id, epoch) OFFSET 0) AS h
    JOIN batch b ON b.shard = h.shard AND b.id = h.id AND b.lease_epoch = h.epoch
    WHERE b.lease_owner = $2
    ORDER BY b.id
    FOR SHARE OF b
), wanted AS MATERIALIZED (
    SELECT j.n, j.device_id, m.broadcast_id, m.provider_id, m.attempt
    FROM unnest($5::bigint[], $6::bigint[]) WITH ORDINALITY AS j(batch_id, device_id, n)
    -- Expected to be many, so that each is looked up by its key, in partitions that look empty, too.
    CROSS JOIN LATERAL (SELECT * FROM mine m WHERE m.id = j.batch_id OFFSET 0) AS m
)
UPDATE delivery d
SET state = 'sending', next_attempt_at = NULL
FROM (SELECT $1::smallint AS shard, wanted.* FROM wanted OFFSET 0) AS s
WHERE d.broadcast_id = s.broadcast_id AND d.shard = s.shard AND d.provider_id = s.provider_id AND d.device_id = s.device_id
  AND d.state IN ('pending', 'sending') AND d.attempts = s.attempt - 1
RETURNING s.n AS "n!"
