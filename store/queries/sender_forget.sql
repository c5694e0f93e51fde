-- Senders not heard of for an hour that hold nothing.
DELETE FROM sender s
WHERE s.heartbeat_at < now() - interval '1 hour'
  AND NOT EXISTS (SELECT FROM batch b WHERE b.state = 'leased' AND b.lease_owner = s.id)
