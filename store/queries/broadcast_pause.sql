-- No batch of it is claimed once this has committed.
UPDATE broadcast SET paused = true
WHERE id = $1 AND NOT paused AND state IN ('scheduled', 'accepted', 'fanning_out', 'delivering')
