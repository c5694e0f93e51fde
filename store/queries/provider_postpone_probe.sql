-- There was nothing to probe with, or no room: soon again.
UPDATE provider SET probe_at = now() + interval '250 milliseconds' WHERE id = $1 AND parked_since = $2
