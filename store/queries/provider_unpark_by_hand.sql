-- Whatever it is parked for. Returns it, and whether it was.
WITH found AS (
    SELECT id, parked_since IS NOT NULL AS parked FROM provider WHERE name = $1 FOR UPDATE
), unparked AS (
    UPDATE provider p
    SET parked_since = NULL, parked_code = NULL, parked_detail = NULL, probe_at = NULL, probes_failed = 0, resumed_at = now(),
        doubted_since = NULL, parked_by_hand_since = NULL
    FROM found
    WHERE p.id = found.id AND found.parked
)
SELECT parked AS "parked!" FROM found
