-- Parks a provider; one that is parked already stays so. The first probe comes a second later. $4: its answers are doubted.
UPDATE provider
SET parked_since = now(), parked_code = $2, parked_detail = $3, probe_at = now() + interval '1 second', probes_failed = 0,
    parked_by_hand_since = NULL, doubted_since = CASE WHEN $4 THEN now() END
WHERE id = $1 AND parked_since IS NULL
