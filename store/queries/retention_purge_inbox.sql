-- Deletes what is in inboxes of final broadcasts that started more than $1 days ago: at most $2 rows. From broadcast to broadcast, by
-- a look at the index each: one that started long after it was accepted is passed over, and not read.
WITH RECURSIVE old(id) AS (
    SELECT min(broadcast_id) FROM inbox
    UNION ALL
    SELECT (SELECT min(broadcast_id) FROM inbox WHERE broadcast_id > old.id)
    FROM old
    WHERE old.id < broadcast_id_at(now() - make_interval(days => $1::int))
)
DELETE FROM inbox
WHERE ctid = ANY (ARRAY(
    SELECT i.ctid
    FROM old
    CROSS JOIN LATERAL (
        SELECT ctid FROM inbox
        WHERE broadcast_id = old.id
          AND NOT EXISTS (SELECT FROM broadcast b
                          WHERE b.id = old.id
                            AND (b.settled_at IS NULL OR b.scheduled_at >= now() - make_interval(days => $1::int)))
        OFFSET 0) AS i
    WHERE old.id < broadcast_id_at(now() - make_interval(days => $1::int))
    LIMIT $2))
