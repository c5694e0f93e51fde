-- Keeps the batches that are still the sender's; those not returned are lost.
WITH mine AS MATERIALIZED (
    SELECT b.id
    FROM (SELECT $1::smallint AS shard, h.* FROM unnest($3::bigint[], $4::bigint[]) AS h(id, epoch) OFFSET 0) AS h
    JOIN batch b ON b.shard = h.shard AND b.id = h.id AND b.lease_epoch = h.epoch
    WHERE b.lease_owner = $2
    ORDER BY b.id
    FOR UPDATE OF b
)
UPDATE batch b SET lease_expires_at = now() + $5::float8 * interval '1 second'
WHERE b.shard = $1 AND b.id = ANY (ARRAY(SELECT id FROM mine))
RETURNING b.id AS "id: BatchId"
