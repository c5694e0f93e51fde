-- Those of the broadcasts $1 of which nothing more is to be sent, and that have batches which nobody works on. Five seconds: after
-- Postgres stood still, owners that live get time to renew.
SELECT br.id
FROM broadcast br
WHERE br.id = ANY($1::bigint[]) AND br.settled_at IS NULL AND (br.state = 'cancelling' OR br.expires_at <= now())
  AND EXISTS (SELECT FROM batch b
              WHERE b.broadcast_id = br.id AND b.state <> 'done' AND (b.state <> 'leased' OR b.lease_expires_at <= now() - interval '5 seconds')
              OFFSET 0)
ORDER BY br.id
LIMIT 100
