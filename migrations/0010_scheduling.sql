-- Broadcasts that start later, and providers that an operator parks.
--
-- A process of the version before goes on working. It starts no scheduled broadcast and drops no day of one that waits; but it cannot read
-- the new state, so its GetBroadcast, ListBroadcasts and StreamStatus answer INTERNAL where one is among what they read, and its
-- CreateBroadcast takes no notice of a schedule_time and sends at once. So nobody asks for one before all intakes are new.
-- A provider that is parked by hand it leaves alone like any other parked one, and never probes, since the probe is due in the
-- year 9999; it says of it that it fails, with the code `by_hand`.

-- Nobody may use a new value before it is committed (see 0003), so nothing below names it.
ALTER TYPE broadcast_state ADD VALUE 'scheduled' BEFORE 'accepted';

ALTER TABLE broadcast
    -- When it is to start, or was, where that was not at once. Kept after the start.
    ADD COLUMN scheduled_at  timestamptz,
    -- Of a scheduled one whose expiry was given as a span: it expires so long after its start, and moves along with it.
    ADD COLUMN expires_after interval,
    -- NOT VALID: every row meets them, since the columns are new, and the one before was stricter.
    ADD CONSTRAINT broadcast_scheduled CHECK (
        (scheduled_at IS NOT NULL AND expires_at > scheduled_at)
        OR (scheduled_at IS NULL AND expires_after IS NULL
            AND state IN ('accepted', 'fanning_out', 'delivering', 'completed', 'cancelling', 'cancelled'))) NOT VALID,
    DROP CONSTRAINT broadcast_paused,
    ADD CONSTRAINT broadcast_paused CHECK (NOT paused OR state NOT IN ('completed', 'cancelling', 'cancelled')) NOT VALID;

-- Those that wait for their time, and for a moment those that have just started: what every intake looks at several times a
-- second. Nothing of a finished one is left in it.
CREATE INDEX broadcast_due ON broadcast (scheduled_at)
    WHERE scheduled_at IS NOT NULL AND fan_out_page_at IS NULL AND settled_at IS NULL;
-- How long the days of scheduled ones are kept: from their start, not from the day of their id.
CREATE INDEX broadcast_scheduled ON broadcast (id) WHERE scheduled_at IS NOT NULL;

ALTER TABLE provider
    -- Equal to parked_since where an operator parked it. A process of the version before does not know it, and clears
    -- parked_since alone.
    ADD COLUMN parked_by_hand_since timestamptz;
