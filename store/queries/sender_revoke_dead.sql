-- Ends the leases of senders known to be dead, so that the next claim takes them. Dead is who lost its session lock, has
-- not been heard of for $3 seconds, and was heard of since Postgres started: a restart of Postgres takes everybody's lock
-- and heartbeat, and proves nothing. So does a server that stood still: $4 is our own last heartbeat, as answered, and must be recent. Should
-- the owner live after all, its next renewal takes the lease back.
WITH silent AS MATERIALIZED (
    SELECT id, lock_key
    FROM sender
    WHERE id <> $2 AND heartbeat_at < now() - $3::float8 * interval '1 second' AND heartbeat_at > pg_postmaster_start_time()
      AND $4::timestamptz > now() - interval '1500 milliseconds'
), dead AS MATERIALIZED (
    SELECT id FROM silent WHERE pg_try_advisory_xact_lock_shared(lock_key)
), leased AS MATERIALIZED (
    SELECT b.id
    FROM batch b
    WHERE b.shard = $1 AND b.state = 'leased' AND b.lease_expires_at > now() AND b.lease_owner IN (SELECT id FROM dead)
    ORDER BY b.id
    FOR UPDATE SKIP LOCKED
)
UPDATE batch b SET lease_expires_at = now()
WHERE b.shard = $1 AND b.id = ANY (ARRAY(SELECT id FROM leased))
RETURNING b.id AS "id: BatchId"
