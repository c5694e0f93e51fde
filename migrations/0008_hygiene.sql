-- What providers say of tokens: devices put aside, what they were retired for, and providers whose word is doubted.
--
-- It took 10 s with 2 million devices, a tenth of them retired, on two busy cores, once, and with fsync off. Nobody has measured
-- 10 million: five times that is a minute, and a real disk adds to it.
-- It is one transaction, and until its end nobody registers, fans out, reads devices or retires. To avoid that, make the indexes
-- before, by hand and one by one, while everything runs; what stands already is not made again:
--
--   ALTER TABLE device ADD COLUMN IF NOT EXISTS quarantined_at timestamptz;
--   CREATE INDEX CONCURRENTLY device_callable ON device (shard, provider_id, id)
--       WHERE enabled AND retired_at IS NULL AND quarantined_at IS NULL;
--   CREATE INDEX CONCURRENTLY device_retirement ON device (shard, id) WHERE retired_at IS NOT NULL;
--   CREATE INDEX CONCURRENTLY device_retired_token ON device USING hash (token) WHERE retired_at IS NOT NULL;
--
-- Processes of the version before find their pages by the primary key until they are replaced: slower where most devices
-- are another provider's, and right.

-- The pool's own limit is for calls.
SET LOCAL statement_timeout = '10min';

ALTER TABLE device
    -- A provider said that token and credentials do not fit together: not called until it is registered again or restored.
    ADD COLUMN IF NOT EXISTS quarantined_at timestamptz,
    ADD COLUMN quarantine_code   text,
    ADD COLUMN quarantine_detail text,
    -- The broadcast whose call was answered so.
    ADD COLUMN quarantined_by    bigint,
    -- The same of a device that was retired because the provider said that its token is gone, and the topics that it had.
    ADD COLUMN retired_by        bigint,
    ADD COLUMN retire_code       text,
    ADD COLUMN retired_topics    text[],
    -- NOT VALID: every row meets them, since the columns are new.
    ADD CONSTRAINT device_quarantined CHECK (num_nonnulls(quarantined_at, quarantine_code, quarantine_detail, quarantined_by) IN (0, 4)
        AND octet_length(quarantine_code) <= 64 AND octet_length(quarantine_detail) <= 512) NOT VALID,
    -- A process of the version before retires without evidence.
    ADD CONSTRAINT device_retired_by CHECK (num_nonnulls(retired_by, retire_code, retired_topics) IN (0, 3)
        AND (retired_by IS NULL OR (retire_reason = 'unregistered' AND octet_length(retire_code) <= 64))) NOT VALID;

-- Fan-out reads pages of those that can be sent to.
CREATE INDEX IF NOT EXISTS device_callable ON device (shard, provider_id, id)
    WHERE enabled AND retired_at IS NULL AND quarantined_at IS NULL;
DROP INDEX device_sendable;
ALTER INDEX device_callable RENAME TO device_sendable;
-- Lists, and what is to be restored.
CREATE INDEX IF NOT EXISTS device_quarantine ON device (shard, id) WHERE quarantined_at IS NOT NULL AND retired_at IS NULL;
CREATE INDEX IF NOT EXISTS device_retirement ON device (shard, id) WHERE retired_at IS NOT NULL;
-- Whether a token had a newer device that is retired too: a hash of it is enough, and much smaller.
CREATE INDEX IF NOT EXISTS device_retired_token ON device USING hash (token) WHERE retired_at IS NOT NULL;

ALTER TABLE provider
    -- Equal to parked_since where so many tokens were called gone at once that it is not believed. A process of the version
    -- before does not know it, and clears parked_since alone.
    ADD COLUMN doubted_since timestamptz;
