-- Broadcasts of which nothing more is to be sent, and that have batches which nobody works on.
SELECT br.id
FROM broadcast br
WHERE br.settled_at IS NULL AND (br.state = 'cancelling' OR br.expires_at <= now())
  AND EXISTS (SELECT FROM batch b
              WHERE b.broadcast_id = br.id AND b.state <> 'done' AND (b.state <> 'leased' OR b.lease_expires_at <= now())
              OFFSET 0)
ORDER BY br.id
LIMIT 100
