-- The most calls of one broadcast within a second, over all senders and providers; and what a preflight asks of senders.
--
-- Batches of such a broadcast are born `held`, outside the queue, and leave it a few deliveries at a time, with the slots for them.
-- Processes of the version before go on working and know no such rate: their sweeps offer these batches like those of a resumed
-- broadcast, and their senders call them as fast as they can. So nobody asks for a rate before all processes are new. What an old
-- sweep has offered, the new ones hold again within a second.

ALTER TABLE broadcast
    -- None: as many as can be made.
    ADD COLUMN max_rate_per_second integer CHECK (max_rate_per_second BETWEEN 1 AND 1000000);
-- Those that senders look for, several times a second: one that has none costs nothing there.
CREATE INDEX broadcast_capped ON broadcast (id) WHERE max_rate_per_second IS NOT NULL AND settled_at IS NULL;

-- Until when slots, moments to call at, are given away. Apart from broadcast, whose row a page of fan-out holds; goes with it.
CREATE TABLE broadcast_pace (
    broadcast_id bigint      PRIMARY KEY REFERENCES broadcast ON DELETE CASCADE,
    paced_until  timestamptz NOT NULL DEFAULT '-infinity'
);
ALTER TABLE broadcast_pace SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- The providers that a sender has; none where its version does not say.
ALTER TABLE sender ADD COLUMN providers smallint[];

-- What is next of a broadcast with a rate: retries by the time they are due, fresh work by rank.
CREATE INDEX batch_capped ON batch (broadcast_id, shard, provider_id, next_attempt_at, rank) WHERE state = 'held';
