-- Why somebody did not get it: attempts that failed and were made again, and what a device was before it became what it is.
-- Nothing is known of the time before; a process of the version before writes none of it.

-- A failed attempt after which the delivery went on. The failure that ends one is its dead letter, and has no second row here.
-- slot is the number of the attempt, modulo how many are kept (store/src/flush/failures.rs): what is answered 429 for days keeps its
-- last ones. No partitions: a flush must not fail because one is missing, and these are about three in a hundred deliveries. They
-- are deleted in steps once the deliveries of their day are gone (store/src/retention.rs).
CREATE TABLE attempt_failure (
    broadcast_id bigint      NOT NULL,
    device_id    bigint      NOT NULL,
    at           timestamptz NOT NULL DEFAULT now(),
    -- When the next attempt was due.
    due_at       timestamptz NOT NULL,
    attempt      integer     NOT NULL CHECK (attempt >= 1),
    shard        smallint    NOT NULL,
    provider_id  smallint    NOT NULL,
    slot         smallint    NOT NULL,
    -- Whether it counts against the provider's limit of attempts.
    charged      boolean     NOT NULL,
    code         text        NOT NULL CHECK (octet_length(code) <= 64),
    detail       text        NOT NULL CHECK (octet_length(detail) <= 512),
    PRIMARY KEY (broadcast_id, shard, provider_id, device_id, slot)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE TYPE device_event_kind AS ENUM ('consent_given', 'consent_withdrawn', 'quarantine_ended', 'quarantine_undone',
                                       'retirement_undone');

-- What the row of a device does not say any more: changes of consent, and what it was quarantined or retired for when that ended. A
-- new device, one that is registered again as it was, one that is retired or quarantined: their row says it, and nothing is
-- written here.
CREATE TABLE device_event (
    shard        smallint          NOT NULL,
    device_id    bigint            NOT NULL,
    at           timestamptz       NOT NULL DEFAULT now(),
    kind         device_event_kind NOT NULL,
    -- Of what ended: since when it was so, and the words that it was so for, in answer to a call for which broadcast.
    since        timestamptz,
    code         text              CHECK (octet_length(code) <= 64),
    detail       text              CHECK (octet_length(detail) <= 512),
    broadcast_id bigint,
    PRIMARY KEY (shard, device_id, at, kind),
    CONSTRAINT device_event_since CHECK ((since IS NULL) = (kind IN ('consent_given', 'consent_withdrawn')))
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
-- Retention.
CREATE INDEX device_event_at ON device_event (at);

-- Which program it is; none of the version before.
ALTER TABLE sender ADD COLUMN version text;
