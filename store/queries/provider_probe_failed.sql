-- The next probe comes after a second, then two, four, and five from then on; not before $4 seconds. What a doubted provider is
-- parked for stays to be seen.
UPDATE provider
SET probes_failed = probes_failed + 1,
    parked_code = CASE WHEN doubted_since = parked_since THEN parked_code ELSE $2 END,
    parked_detail = CASE WHEN doubted_since = parked_since THEN parked_detail ELSE $3 END,
    probe_at = now() + greatest(least(5, 2 ^ least(probes_failed, 3)), $4::float8) * interval '1 second'
WHERE id = $1 AND parked_since = $5
