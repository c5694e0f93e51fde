-- Locks the batches of a flush, in order of id like every statement that takes several, and says whose they are. Owner and
-- epoch decide, not the expiry: an owner that nobody has replaced keeps its batch in fact.
SELECT id AS "id: BatchId", lease_epoch AS epoch, coalesce(lease_owner = $2, false) AS "mine!"
FROM batch
WHERE shard = $1 AND id = ANY($3::bigint[])
ORDER BY id
FOR UPDATE
