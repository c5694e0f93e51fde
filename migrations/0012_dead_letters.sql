-- Replays of chosen dead letters, rounds of the slow tier, and how many dead letters were purged.

ALTER TABLE broadcast
    -- Of a replay: only what died from then on, and before.
    ADD COLUMN replay_from   timestamptz,
    ADD COLUMN replay_to     timestamptz,
    -- Of a replay: how many dead letters were named, by their devices in broadcast_audience; 0: all that match.
    ADD COLUMN replay_listed integer  NOT NULL DEFAULT 0 CHECK (replay_listed >= 0),
    -- Of a replay that nobody asked for: which round of the slow tier it is.
    ADD COLUMN slow_round    smallint CHECK (slow_round > 0),
    -- An intake of the version before knows nothing of these, and would take up more than was asked for. So the fan-out of such a
    -- replay counts its shards down from -1, which that intake never writes: its page fails, and another one makes it. NOT
    -- VALID, since the columns are new.
    ADD CONSTRAINT broadcast_replay_narrow CHECK (
        fan_out_shard < 0 OR (replay_listed = 0 AND num_nonnulls(replay_from, replay_to, slow_round) = 0)) NOT VALID;

ALTER TABLE broadcast_tally
    -- Since when what died at this provider waits for a round of the slow tier; none: it does not. What has ended before this
    -- migration is left to people; a process of the version before writes the default.
    ADD COLUMN slow_tier_from timestamptz;
ALTER TABLE broadcast_tally ALTER COLUMN slow_tier_from SET DEFAULT now();
CREATE INDEX broadcast_tally_slow_tier ON broadcast_tally (provider_id, slow_tier_from)
    WHERE dead_attempts_exhausted > 0 AND slow_tier_from IS NOT NULL;

-- How many dead letters of a broadcast an operator had deleted: so many of its failed deliveries have none.
CREATE TABLE dead_letter_purge (
    broadcast_id bigint PRIMARY KEY REFERENCES broadcast ON DELETE CASCADE,
    letters      bigint NOT NULL CHECK (letters > 0)
);
