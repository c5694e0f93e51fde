UPDATE provider
SET parked_since = NULL, parked_code = NULL, parked_detail = NULL, probe_at = NULL, probes_failed = 0, resumed_at = now()
WHERE id = $1 AND parked_since IS NOT NULL
