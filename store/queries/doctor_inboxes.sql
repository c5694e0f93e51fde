-- Broadcasts whose counts of events are not those of the inboxes, and users with an event beyond their last number. What retention
-- has taken out of inboxes, of final broadcasts alone, leaves fewer than were counted.
WITH kept AS (
    SELECT broadcast_id, count(*) AS events, count(acked_at) AS acknowledged FROM inbox GROUP BY broadcast_id
), both_sides AS (
    SELECT broadcast_id, coalesce(l.events, 0) AS events, coalesce(l.acknowledged, 0) AS acknowledged,
           coalesce(k.events, 0) AS kept, coalesce(k.acknowledged, 0) AS kept_acknowledged
    FROM broadcast_live l FULL JOIN kept k USING (broadcast_id)
)
SELECT 'broadcast ' || b.broadcast_id AS "subject!",
       format('counts %s events, of which %s are acknowledged, and inboxes have %s, of which %s are', b.events, b.acknowledged,
              b.kept, b.kept_acknowledged) AS "detail!"
FROM both_sides b
JOIN broadcast br ON br.id = b.broadcast_id
WHERE b.kept > b.events OR b.kept_acknowledged > b.acknowledged
   OR (br.settled_at IS NULL OR b.kept = b.events)
      AND (b.kept, b.kept_acknowledged) IS DISTINCT FROM (b.events, b.acknowledged)
UNION ALL
SELECT 'inbox ' || u.id, format('has event %s, and the last one that was numbered is %s', max(i.seq), u.last_seq)
FROM inbox_user u JOIN inbox i ON i.user_no = u.id
GROUP BY u.id
HAVING max(i.seq) > u.last_seq
ORDER BY 1
LIMIT 50
