-- What an operator and a provider's outage can do to work under way: pause, replay, at most once, parked providers.

CREATE TYPE delivery_guarantee AS ENUM ('at_least_once', 'at_most_once');

ALTER TABLE broadcast
    -- No call starts while set; its batches are held.
    ADD COLUMN paused          boolean            NOT NULL DEFAULT false,
    ADD COLUMN guarantee       delivery_guarantee NOT NULL DEFAULT 'at_least_once',
    -- A replay is a broadcast to the dead letters of another one …
    ADD COLUMN replay_of       bigint             REFERENCES broadcast,
    -- … which match these; no reasons: all but unconfirmed.
    ADD COLUMN replay_reasons  dead_reason[]      NOT NULL DEFAULT '{}',
    ADD COLUMN replay_code     text,
    ADD COLUMN replay_provider smallint,
    -- The first broadcast in a chain of replays: devices and providers know the notification by its id.
    ADD COLUMN origin_id       bigint,
    ADD CONSTRAINT broadcast_replay CHECK ((replay_of IS NOT NULL) = (audience = 'dead_letters')
                                       AND (replay_of IS NULL) = (origin_id IS NULL)),
    ADD CONSTRAINT broadcast_paused CHECK (NOT paused OR state IN ('accepted', 'fanning_out', 'delivering'));

-- `sending`: at most once only, committed before the call. NOT VALID, since every row met the stricter one before.
ALTER TABLE delivery
    DROP CONSTRAINT delivery_settled,
    ADD CONSTRAINT delivery_settled CHECK ((state IN ('pending', 'sending')) = (settled_at IS NULL)) NOT VALID;

ALTER TABLE batch
    DROP CONSTRAINT batch_tally,
    DROP CONSTRAINT batch_done,
    DROP COLUMN accounted,
    ADD COLUMN unconfirmed integer NOT NULL DEFAULT 0;
ALTER TABLE batch
    ADD COLUMN accounted integer NOT NULL GENERATED ALWAYS AS (sent + dead_attempts_exhausted + dead_unregistered + dead_rejected
                                                               + expired + skipped + cancelled + unconfirmed + retried) STORED,
    ADD CONSTRAINT batch_tally CHECK (accounted <= size),
    ADD CONSTRAINT batch_done CHECK (state <> 'done' OR accounted = size);
-- Batches are asked for by id: with the shard first, a plan made without statistics reads all of one.
ALTER TABLE batch DROP CONSTRAINT batch_pkey, ADD PRIMARY KEY (id, shard);
-- What a resume offers again.
CREATE INDEX batch_held ON batch (broadcast_id) WHERE state = 'held';

ALTER TABLE broadcast_tally
    ADD COLUMN unconfirmed bigint NOT NULL DEFAULT 0,
    DROP CONSTRAINT broadcast_tally_sum,
    ADD CONSTRAINT broadcast_tally_sum CHECK (total = sent + dead_attempts_exhausted + dead_unregistered + dead_rejected + expired
                                              + skipped + cancelled + unconfirmed);

-- The replay that took the delivery up again.
ALTER TABLE dead_letter ADD COLUMN replayed_by bigint REFERENCES broadcast;

-- A provider that fails as a whole is parked: nobody calls it but for one probe at a time.
ALTER TABLE provider
    ADD COLUMN parked_since  timestamptz,
    -- What its last answer was.
    ADD COLUMN parked_code   text CHECK (octet_length(parked_code) <= 64),
    ADD COLUMN parked_detail text CHECK (octet_length(parked_detail) <= 512),
    -- When the next probe is due, and how many failed.
    ADD COLUMN probe_at      timestamptz,
    ADD COLUMN probes_failed integer NOT NULL DEFAULT 0,
    -- When it was last found to work again: calls are resumed gently from then.
    ADD COLUMN resumed_at    timestamptz,
    ADD CONSTRAINT provider_parked CHECK (num_nonnulls(parked_since, parked_code, parked_detail, probe_at) IN (0, 4));
