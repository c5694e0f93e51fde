-- A page of fan-out under way holds the row for some milliseconds; after this, none is made any more.
UPDATE broadcast SET state = 'cancelling', paused = false
WHERE id = $1 AND state IN ('accepted', 'fanning_out', 'delivering')
