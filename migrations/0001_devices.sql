-- Who can be reached, and how: providers, device registrations, topics.

-- A configured way out under a name. Senders write the providers they are configured with; all processes agree here on
-- what is shared: how far its fair queue has come, and until when it asked not to be called.
CREATE TABLE provider (
    id         smallint    PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    name       text        NOT NULL UNIQUE CHECK (octet_length(name) BETWEEN 1 AND 64),
    kind       text        NOT NULL CHECK (kind IN ('webhook')),
    -- Virtual time: the greatest rank claimed so far (see batch.rank).
    vtime      bigint      NOT NULL DEFAULT 0 CHECK (vtime >= 0),
    -- No call starts before this; set by answers like 429.
    held_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TYPE retire_reason AS ENUM ('requested', 'replaced', 'unregistered');

CREATE SEQUENCE device_id_seq;

-- One registration: user, provider, token, consent. shard is a hash of provider and token, so that uniqueness of a token
-- holds within a shard; a plain Postgres has the one shard 0. provider_id has no foreign key: it is a quarter of what an
-- import costs, and providers are never deleted.
CREATE TABLE device (
    id              bigint      NOT NULL DEFAULT nextval('device_id_seq'),
    registered_at   timestamptz NOT NULL DEFAULT now(),
    retired_at      timestamptz,
    shard           smallint    NOT NULL,
    provider_id     smallint    NOT NULL,
    retire_reason   retire_reason,
    enabled         boolean     NOT NULL DEFAULT true, -- consent
    user_id         text        NOT NULL CHECK (octet_length(user_id) BETWEEN 1 AND 256),
    token           text        NOT NULL CHECK (octet_length(token) BETWEEN 1 AND 2048),
    installation_id text        CHECK (octet_length(installation_id) BETWEEN 1 AND 256),
    PRIMARY KEY (shard, id),
    CONSTRAINT device_retired CHECK ((retired_at IS NULL) = (retire_reason IS NULL))
) WITH (fillfactor = 85); -- room for a refreshed registration on its own page (HOT), without touching the indexes
ALTER SEQUENCE device_id_seq OWNED BY device.id;

-- The newest registration of a token wins, so there is only ever one that is live.
CREATE UNIQUE INDEX device_live_token ON device (shard, provider_id, token) WHERE retired_at IS NULL;
-- Fan-out reads pages of those that can be sent to.
CREATE INDEX device_sendable ON device (shard, provider_id, id) WHERE enabled AND retired_at IS NULL;
CREATE INDEX device_user ON device (user_id, id);
-- The newest token of an installation wins likewise.
CREATE UNIQUE INDEX device_live_installation ON device (shard, provider_id, installation_id)
    WHERE retired_at IS NULL AND installation_id IS NOT NULL;

-- provider_id is a device's own and never changes: with it, fan-out pages a topic in the order of device_sendable.
CREATE TABLE device_topic (
    topic       text     NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 128),
    shard       smallint NOT NULL,
    provider_id smallint NOT NULL,
    device_id   bigint   NOT NULL,
    PRIMARY KEY (topic, shard, provider_id, device_id)
);
CREATE INDEX device_topic_device ON device_topic (shard, device_id);
