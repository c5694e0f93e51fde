-- What is held is summed once for all of them. Whether a sender's session lock is there is looked up among the locks instead of
-- tried: to have it for a moment would keep a sender that comes back from taking it.
SELECT s.id AS "id: SenderId", s.version, s.started_at, s.heartbeat_at, s.in_flight,
       coalesce(held.batches, 0) AS "batches!", coalesce(held.deliveries, 0) AS "deliveries!",
       extract(epoch FROM now() - s.heartbeat_at)::float8 AS "silent_seconds!",
       s.heartbeat_at > pg_postmaster_start_time() AS "heard_since_start!",
       EXISTS (SELECT FROM pg_locks l
               WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
                 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                 AND l.classid = (s.lock_key >> 32 & 4294967295)::oid AND l.objid = (s.lock_key & 4294967295)::oid) AS "locked!"
FROM sender s
LEFT JOIN (
    SELECT b.lease_owner, count(*) AS batches, sum(b.size - b.accounted)::bigint AS deliveries
    FROM batch b
    WHERE b.shard = ANY ($1::smallint[]) AND b.state = 'leased'
    GROUP BY b.lease_owner
) AS held ON held.lease_owner = s.id
ORDER BY s.started_at, s.id
