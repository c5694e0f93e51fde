-- Batches that nobody works on, of the ended broadcasts $3. Shard + 0, so that they are found by their broadcast whatever the
-- statistics say.
SELECT b.id AS "id: BatchId",
       CASE br.state WHEN 'cancelling' THEN 'cancelled' ELSE 'expired' END::delivery_state AS "state!: DeliveryState"
FROM broadcast br
JOIN batch b ON b.broadcast_id = br.id
WHERE br.id = ANY($3::bigint[]) AND (br.state = 'cancelling' OR br.expires_at <= now())
  AND b.shard + 0 = $1::smallint AND b.state <> 'done' AND (b.state <> 'leased' OR b.lease_expires_at <= now() - interval '5 seconds')
ORDER BY b.broadcast_id
LIMIT $2
FOR UPDATE OF b SKIP LOCKED
