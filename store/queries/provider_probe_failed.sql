-- The next probe comes after a second, then two, four, and five from then on; not before $4 seconds.
UPDATE provider
SET probes_failed = probes_failed + 1, parked_code = $2, parked_detail = $3,
    probe_at = now() + greatest(least(5, 2 ^ least(probes_failed, 3)), $4::float8) * interval '1 second'
WHERE id = $1 AND parked_since = $5
