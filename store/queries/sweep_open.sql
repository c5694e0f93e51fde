-- Broadcasts that are not final, from $1 on; and from where to look the next time. Ids are made a moment before their row can be seen, at most
-- as long as a statement may take.
SELECT coalesce(array_agg(id ORDER BY id), '{}') AS "open!", broadcast_id_at(now() - interval '10 seconds') AS "next!"
FROM broadcast
WHERE settled_at IS NULL AND id >= $1
