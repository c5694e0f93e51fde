-- Deletes what happened to devices more than $1 days ago: at most $2.
DELETE FROM device_event
WHERE ctid = ANY (ARRAY(
    SELECT e.ctid FROM device_event e WHERE e.at < now() - make_interval(days => $1::int) ORDER BY e.at LIMIT $2))
