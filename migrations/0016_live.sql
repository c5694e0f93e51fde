-- The live channel: how a broadcast goes out, each user's inbox, and who is connected.
--
-- Processes of the version before go on working: what they accept is routed `push`, as before. They do not know other routings: their
-- fan-out would make no events, and their senders would push at once. So nobody asks for one before all processes are new.

CREATE TYPE broadcast_routing AS ENUM ('push', 'live', 'live_then_push', 'live_and_push');

ALTER TABLE broadcast
    ADD COLUMN routing     broadcast_routing NOT NULL DEFAULT 'push',
    -- How long a connected user has to acknowledge before the push goes out.
    ADD COLUMN ack_timeout interval,
    -- NOT VALID: every row meets it, since the columns are new.
    ADD CONSTRAINT broadcast_ack_timeout CHECK ((routing = 'live_then_push') = (ack_timeout IS NOT NULL)) NOT VALID;

ALTER TABLE settings
    -- Part of every event id: another one after a backup was restored, when sequences may have gone back. Clients whose last event
    -- is of another epoch are told of a gap.
    ADD COLUMN inbox_epoch bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    -- Signs tickets, which all senders take.
    ADD COLUMN ticket_key  bytea  NOT NULL DEFAULT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- Whoever was ever connected, or got an event. The row is what events of a user are numbered by: its lock puts them in the order in
-- which they commit, so that no reader sees a number before a smaller one.
CREATE TABLE inbox_user (
    id       bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    user_id  text   NOT NULL UNIQUE CHECK (octet_length(user_id) BETWEEN 1 AND 256),
    last_seq bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- One event per broadcast and user: what they see live, and what is in their inbox. The text is the broadcast's.
CREATE TABLE inbox (
    user_no      bigint      NOT NULL, -- inbox_user.id
    seq          bigint      NOT NULL, -- from 1, without holes
    broadcast_id bigint      NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    acked_at     timestamptz, -- a client of theirs says that it has it
    read_at      timestamptz, -- they have looked at it
    PRIMARY KEY (user_no, seq),
    UNIQUE (broadcast_id, user_no)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX inbox_unread ON inbox (user_no, seq) WHERE read_at IS NULL;

-- How many events a broadcast has, and of how many a client said that it has it. Apart from broadcast, whose row a page of fan-out
-- holds; goes with it.
CREATE TABLE broadcast_live (
    broadcast_id bigint PRIMARY KEY REFERENCES broadcast ON DELETE CASCADE,
    events       bigint NOT NULL,
    acknowledged bigint NOT NULL DEFAULT 0,
    CHECK (acknowledged BETWEEN 0 AND events)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200);

-- Who has a connection, and at which sender; true as long as that sender is heard of. Unlogged: a crash of Postgres empties it, and
-- senders write theirs anew.
CREATE UNLOGGED TABLE live_presence (
    user_no   bigint NOT NULL,
    sender_id uuid   NOT NULL,
    PRIMARY KEY (user_no, sender_id)
) WITH (autovacuum_vacuum_scale_factor = 0.1);
CREATE INDEX live_presence_sender ON live_presence (sender_id);
