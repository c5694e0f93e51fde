-- Batches that nobody works on, of the ended broadcasts $3.
SELECT b.id AS "id: BatchId",
       CASE br.state WHEN 'cancelling' THEN 'cancelled' ELSE 'expired' END::delivery_state AS "state!: DeliveryState"
FROM broadcast br
JOIN batch b ON b.broadcast_id = br.id
WHERE br.id = ANY($3::bigint[]) AND (br.state = 'cancelling' OR br.expires_at <= now())
  AND b.shard = $1 AND b.state <> 'done' AND (b.state <> 'leased' OR b.lease_expires_at <= now())
ORDER BY b.broadcast_id
LIMIT $2
FOR UPDATE OF b SKIP LOCKED
