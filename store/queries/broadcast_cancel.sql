-- A page of fan-out under way holds the row for some milliseconds; after this, none is made any more. One that has not started
-- has nothing to settle.
UPDATE broadcast
SET state = CASE state WHEN 'scheduled' THEN 'cancelled' ELSE 'cancelling' END::broadcast_state,
    settled_at = CASE state WHEN 'scheduled' THEN now() END, paused = false
WHERE id = $1 AND state IN ('scheduled', 'accepted', 'fanning_out', 'delivering')
