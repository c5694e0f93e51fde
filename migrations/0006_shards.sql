-- The number of shards, and how far the fan-out of a broadcast has come among them.

-- What holds for the whole database; one row. It is read where it decides what is written (a registration, a page of
-- fan-out, an acceptance), and once a second by each process for what it looks at.
CREATE TABLE settings (
    id     smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    -- Devices are spread over the shards 0 to this one less 1 (see store/src/shards.rs). It changes only while there are none.
    shards smallint NOT NULL DEFAULT 1 CHECK (shards BETWEEN 1 AND 256)
);
INSERT INTO settings DEFAULT VALUES;

-- Within a provider, fan-out goes through the shards in order.
ALTER TABLE broadcast ADD COLUMN fan_out_shard smallint NOT NULL DEFAULT 0;
