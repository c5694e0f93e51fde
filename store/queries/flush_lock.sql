-- Locks the batches of a flush, in order of id like every statement that takes several, and says which are still the
-- sender's: owner and epoch decide, not the expiry, since an owner that nobody has replaced keeps its batch in fact.
SELECT b.id AS "id: BatchId", coalesce(b.lease_owner = $2 AND b.lease_epoch = f.epoch, false) AS "owned!"
FROM unnest($3::bigint[], $4::bigint[]) AS f(id, epoch)
JOIN batch b ON b.shard = $1 AND b.id = f.id
ORDER BY b.id
FOR UPDATE OF b
