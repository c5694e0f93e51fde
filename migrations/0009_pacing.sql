-- How often a provider may be called, by all senders together. A table of its own: a row that is written tens of times a second
-- would make every look at its provider read what died in it, and stand in the way of heartbeats.
CREATE TABLE provider_pace (
    provider_id     smallint    PRIMARY KEY REFERENCES provider,
    -- Calls within any second at most; none: as many as can be made.
    rate_per_second integer     CHECK (rate_per_second > 0),
    -- Until when slots, moments to call at, are given away to senders.
    paced_until     timestamptz NOT NULL DEFAULT '-infinity'
);
ALTER TABLE provider_pace SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
