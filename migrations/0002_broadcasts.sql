-- What is to be said, to whom, and how far it has come: broadcasts, deliveries, batches, dead letters, senders.

CREATE SEQUENCE broadcast_id_seq MAXVALUE 1048575 CYCLE;

-- Ids are ordered by time: milliseconds since 2025-01-01T00:00:00Z in the upper 43 bits, a sequence in the lower 20. So
-- lists sort by id, and a day of broadcasts is a range of ids.
CREATE FUNCTION broadcast_id_at(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (floor(extract(epoch FROM at) * 1000)::bigint - 1735689600000) << 20
$$;
CREATE FUNCTION next_broadcast_id() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT broadcast_id_at(clock_timestamp()) | (nextval('broadcast_id_seq') & 1048575)
$$;

CREATE TYPE broadcast_state AS ENUM ('accepted', 'fanning_out', 'delivering', 'completed', 'cancelling', 'cancelled');
CREATE TYPE broadcast_priority AS ENUM ('low', 'normal', 'high');
CREATE TYPE audience_kind AS ENUM ('everyone', 'topics', 'users', 'devices');

-- One accepted request to notify an audience. Not updated per delivery: progress is the sum of its batches.
CREATE TABLE broadcast (
    id                bigint             PRIMARY KEY DEFAULT next_broadcast_id(),
    client_id         text               NOT NULL,
    idempotency_key   text               NOT NULL CHECK (octet_length(idempotency_key) BETWEEN 1 AND 255),
    request_hash      bytea              NOT NULL,
    title             text               NOT NULL,
    body              text               NOT NULL,
    data              jsonb              NOT NULL,
    priority          broadcast_priority NOT NULL,
    audience          audience_kind      NOT NULL,
    topics            text[]             NOT NULL DEFAULT '{}',
    -- Ids in an explicit list, kept in broadcast_audience.
    listed            integer            NOT NULL DEFAULT 0,
    state             broadcast_state    NOT NULL,
    created_at        timestamptz        NOT NULL DEFAULT now(),
    expires_at        timestamptz        NOT NULL,
    settled_at        timestamptz,
    -- Fan-out goes through the providers in order of id, and within one through devices (or through the rows of
    -- broadcast_audience). These say how far it has come; a page moves them in the transaction that makes its deliveries.
    fan_out_provider  smallint           NOT NULL DEFAULT 0,
    fan_out_cursor    bigint             NOT NULL DEFAULT 0,
    -- The highest device id when the fan-out started: who registers later is not part of it.
    fan_out_until     bigint,
    fan_out_rank      bigint             NOT NULL DEFAULT 0,
    fan_out_page_at   timestamptz,
    CONSTRAINT broadcast_key UNIQUE (client_id, idempotency_key),
    CONSTRAINT broadcast_settled CHECK ((settled_at IS NOT NULL) = (state IN ('completed', 'cancelled'))),
    CONSTRAINT broadcast_topics CHECK ((audience = 'topics') = (cardinality(topics) > 0)),
    CONSTRAINT broadcast_listed CHECK ((audience IN ('users', 'devices')) = (listed > 0)),
    CONSTRAINT broadcast_expires CHECK (expires_at > created_at)
);
-- Broadcasts waiting for a page of fan-out, the one that waited longest first.
CREATE INDEX broadcast_fan_out ON broadcast (fan_out_page_at NULLS FIRST, id) WHERE state IN ('accepted', 'fanning_out');
-- Those that the sweeps look at.
CREATE INDEX broadcast_open ON broadcast (id) WHERE settled_at IS NULL;

-- An explicit audience, at most 10,000 ids a row; one of the two arrays is set.
CREATE TABLE broadcast_audience (
    broadcast_id bigint  NOT NULL REFERENCES broadcast ON DELETE CASCADE,
    ordinal      integer NOT NULL CHECK (ordinal >= 1),
    user_ids     text[],
    device_ids   bigint[],
    PRIMARY KEY (broadcast_id, ordinal),
    CHECK (num_nonnulls(user_ids, device_ids) = 1)
);

CREATE TYPE delivery_state AS ENUM ('pending', 'sent', 'dead', 'expired', 'skipped', 'cancelled');
CREATE TYPE dead_reason AS ENUM ('attempts_exhausted', 'unregistered', 'rejected');

-- One row per broadcast and device: the unit of outcome. Partitioned by day of the broadcast; no index but the primary
-- key, whose ranges are the batches, and no foreign keys: this is the hot path.
CREATE TABLE delivery (
    broadcast_id    bigint         NOT NULL,
    device_id       bigint         NOT NULL,
    next_attempt_at timestamptz,
    settled_at      timestamptz,
    -- Calls recorded; the attempt that a batch makes next is always one more.
    attempts        integer        NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    state           delivery_state NOT NULL DEFAULT 'pending',
    dead_reason     dead_reason,
    shard           smallint       NOT NULL,
    provider_id     smallint       NOT NULL,
    -- What the last failed attempt met: an HTTP status, 'timeout', 'connect', …
    last_code       text           CHECK (octet_length(last_code) <= 64),
    PRIMARY KEY (broadcast_id, shard, provider_id, device_id),
    CONSTRAINT delivery_dead CHECK ((state = 'dead') = (dead_reason IS NOT NULL)),
    CONSTRAINT delivery_settled CHECK ((state = 'pending') = (settled_at IS NULL)),
    CONSTRAINT delivery_next CHECK (next_attempt_at IS NULL OR (state = 'pending' AND attempts > 0))
) PARTITION BY RANGE (broadcast_id);

-- Makes the partition of one UTC day if it is missing. CREATE + ATTACH holds no lock that a sender or a fan-out waits for.
-- fillfactor 45 leaves room for each row's one update on its own page (HOT).
CREATE FUNCTION ensure_delivery_partition(day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    name text := 'delivery_' || to_char(day, 'YYYYMMDD');
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('bongsu:' || name, 0));
    EXECUTE format('CREATE TABLE %I (LIKE delivery INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES) '
                   'WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.1)', name);
    EXECUTE format('ALTER TABLE delivery ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', name,
                   broadcast_id_at(day::timestamp AT TIME ZONE 'UTC'),
                   broadcast_id_at((day + 1)::timestamp AT TIME ZONE 'UTC'));
    RETURN true;
EXCEPTION WHEN duplicate_table THEN
    -- Somebody made it while we waited for the lock. Looking again first would not tell: what this session remembers of
    -- the catalog is not refreshed by an advisory lock.
    RETURN false;
END
$$;

CREATE TYPE batch_state AS ENUM ('ready', 'waiting', 'leased', 'done');

CREATE SEQUENCE batch_id_seq;

-- Some deliveries of one broadcast, one provider, one shard, one attempt number: the unit of lease, fence and tally.
CREATE TABLE batch (
    id               bigint      NOT NULL DEFAULT nextval('batch_id_seq'),
    broadcast_id     bigint      NOT NULL,
    -- Order of fresh work within a provider: virtual time in thousandths of a delivery at weight 1. A broadcast's batches
    -- are spread over it by size ÷ weight, starting at the provider's vtime, so that whoever comes later does not wait
    -- behind all of an earlier one.
    rank             bigint      NOT NULL,
    next_attempt_at  timestamptz,
    lease_expires_at timestamptz,
    -- Grows with every claim: with lease_owner it is the fence behind which outcomes count.
    lease_epoch      bigint      NOT NULL DEFAULT 0,
    lease_owner      uuid,
    -- Either a range of the delivery key, or for a retry the devices one by one.
    first_device_id  bigint,
    last_device_id   bigint,
    shard            smallint    NOT NULL,
    provider_id      smallint    NOT NULL,
    -- The number of the call that this batch makes, from 1.
    attempt          integer     NOT NULL CHECK (attempt >= 1),
    -- Of the calls before, those that failed and count against the provider's limit of attempts.
    failures         integer     NOT NULL DEFAULT 0 CHECK (failures BETWEEN 0 AND attempt - 1),
    size             integer     NOT NULL CHECK (size BETWEEN 1 AND 1000),
    state            batch_state NOT NULL,
    reclaims         integer     NOT NULL DEFAULT 0,
    -- The tally of its deliveries.
    sent             integer     NOT NULL DEFAULT 0,
    dead_attempts_exhausted integer     NOT NULL DEFAULT 0,
    dead_unregistered integer    NOT NULL DEFAULT 0,
    dead_rejected    integer     NOT NULL DEFAULT 0,
    expired          integer     NOT NULL DEFAULT 0,
    skipped          integer     NOT NULL DEFAULT 0,
    cancelled        integer     NOT NULL DEFAULT 0,
    retried          integer     NOT NULL DEFAULT 0,
    -- Deliveries that have left this batch: with a final state, or for a retry batch.
    accounted        integer     NOT NULL GENERATED ALWAYS AS (sent + dead_attempts_exhausted + dead_unregistered + dead_rejected
                                                               + expired + skipped + cancelled + retried) STORED,
    device_ids       bigint[],
    PRIMARY KEY (shard, id),
    CONSTRAINT batch_lease CHECK ((state = 'leased') = (lease_owner IS NOT NULL)
                              AND (state = 'leased') = (lease_expires_at IS NOT NULL)),
    CONSTRAINT batch_due CHECK (state <> 'waiting' OR next_attempt_at IS NOT NULL),
    CONSTRAINT batch_devices CHECK (num_nonnulls(first_device_id, last_device_id) IN (0, 2)
                                AND (first_device_id IS NULL) = (device_ids IS NOT NULL)),
    CONSTRAINT batch_tally CHECK (accounted <= size),
    CONSTRAINT batch_done CHECK (state <> 'done' OR accounted = size)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        autovacuum_analyze_scale_factor = 0.05);
ALTER SEQUENCE batch_id_seq OWNED BY batch.id;

CREATE INDEX batch_ready ON batch (shard, provider_id, rank, id) WHERE state = 'ready';
CREATE INDEX batch_waiting ON batch (shard, provider_id, next_attempt_at) WHERE state = 'waiting';
CREATE INDEX batch_leased ON batch (shard, lease_expires_at) WHERE state = 'leased';
-- Progress sums a broadcast's batches; completion asks whether one is still open.
CREATE INDEX batch_broadcast ON batch (broadcast_id);
CREATE INDEX batch_open ON batch (broadcast_id) WHERE state <> 'done';

-- The tallies of a broadcast that is final, by provider; its batches are then deleted.
CREATE TABLE broadcast_tally (
    broadcast_id      bigint   NOT NULL REFERENCES broadcast ON DELETE CASCADE,
    provider_id       smallint NOT NULL,
    total             bigint   NOT NULL,
    sent              bigint   NOT NULL,
    dead_attempts_exhausted bigint   NOT NULL,
    dead_unregistered bigint   NOT NULL,
    dead_rejected     bigint   NOT NULL,
    expired           bigint   NOT NULL,
    skipped           bigint   NOT NULL,
    cancelled         bigint   NOT NULL,
    retried           bigint   NOT NULL,
    PRIMARY KEY (broadcast_id, provider_id),
    CONSTRAINT broadcast_tally_sum CHECK (total = sent + dead_attempts_exhausted + dead_unregistered + dead_rejected + expired
                                          + skipped + cancelled)
);

-- Deliveries that will not be tried again, with the cause. Outlives the delivery's partition.
CREATE TABLE dead_letter (
    broadcast_id bigint      NOT NULL REFERENCES broadcast,
    shard        smallint    NOT NULL,
    provider_id  smallint    NOT NULL,
    device_id    bigint      NOT NULL,
    attempts     integer     NOT NULL,
    reason       dead_reason NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    code         text        NOT NULL CHECK (octet_length(code) BETWEEN 1 AND 64),
    detail       text        NOT NULL CHECK (octet_length(detail) <= 512),
    PRIMARY KEY (broadcast_id, shard, provider_id, device_id)
);

-- Who is alive. Each sender holds the session advisory lock lock_key while it runs.
CREATE TABLE sender (
    id           uuid        PRIMARY KEY,
    lock_key     bigint      NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT now(),
    heartbeat_at timestamptz NOT NULL DEFAULT now(),
    in_flight    integer     NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
