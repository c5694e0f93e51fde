SELECT s.id AS "id: SenderId", s.started_at, s.heartbeat_at, s.in_flight,
       (SELECT count(*) FROM batch b WHERE b.shard = ANY ($1::smallint[]) AND b.state = 'leased' AND b.lease_owner = s.id) AS "batches!"
FROM sender s
ORDER BY s.started_at, s.id
