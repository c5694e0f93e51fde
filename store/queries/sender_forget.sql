-- Senders not heard of for an hour that hold nothing, and the connections that they said they had.
WITH gone AS (
    DELETE FROM sender s
    WHERE s.heartbeat_at < now() - interval '1 hour'
      AND NOT EXISTS (SELECT FROM batch b WHERE b.state = 'leased' AND b.lease_owner = s.id)
    RETURNING s.id
)
DELETE FROM live_presence WHERE sender_id IN (SELECT id FROM gone)
