-- What retention needs, and when autovacuum looks after which table.

-- A broadcast is deleted after its dead letters and after the replays of it, which refer to it: without these, each such
-- deletion reads both tables whole. On a database with many dead letters make the second one by hand, CONCURRENTLY, before.
CREATE INDEX IF NOT EXISTS broadcast_replay_of ON broadcast (replay_of) WHERE replay_of IS NOT NULL;
CREATE INDEX IF NOT EXISTS dead_letter_replayed_by ON dead_letter (replayed_by) WHERE replayed_by IS NOT NULL;

-- Sweeps and fan-out read the few open broadcasts through partial indexes, past all that died in them since the last vacuum.
ALTER TABLE broadcast SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
                           autovacuum_analyze_scale_factor = 0.05);
-- Tables that grow for months: a fifth of them, the default, is too much to leave lying.
ALTER TABLE device SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE device_topic SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE dead_letter SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE broadcast_tally SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
-- One or few rows, each written several times a second: whatever died is read again by every look at them.
ALTER TABLE sender SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
ALTER TABLE provider SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
