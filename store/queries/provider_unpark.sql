-- Only of the outage $2 in which the probe was taken: its answer may come late, and says nothing of a later one.
UPDATE provider
SET parked_since = NULL, parked_code = NULL, parked_detail = NULL, probe_at = NULL, probes_failed = 0, resumed_at = now(),
    doubted_since = NULL, parked_by_hand_since = NULL
WHERE id = $1 AND parked_since = $2
