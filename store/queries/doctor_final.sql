-- Final broadcasts that have something open all the same, and dead letters without their delivery or the other way round, but for
-- those that were purged.
SELECT 'broadcast ' || br.id AS "subject!", 'has ended, and ' || count(*) || ' batches are left of it' AS "detail!"
FROM broadcast br JOIN batch b ON b.broadcast_id = br.id
WHERE br.settled_at IS NOT NULL
GROUP BY br.id
UNION ALL
SELECT 'broadcast ' || br.id, 'has ended, and ' || count(*) || ' deliveries have no final state'
FROM broadcast br JOIN delivery d ON d.broadcast_id = br.id
WHERE br.settled_at IS NOT NULL AND d.state IN ('pending', 'sending')
GROUP BY br.id
UNION ALL
SELECT 'broadcast ' || d.broadcast_id,
       count(*) || ' failed deliveries have no dead letter, of which ' || coalesce(max(p.letters), 0) || ' were purged'
FROM delivery d
LEFT JOIN dead_letter l USING (broadcast_id, shard, provider_id, device_id)
LEFT JOIN dead_letter_purge p ON p.broadcast_id = d.broadcast_id
WHERE d.state IN ('dead', 'unconfirmed') AND l.broadcast_id IS NULL
GROUP BY d.broadcast_id
HAVING count(*) <> coalesce(max(p.letters), 0)
UNION ALL
SELECT 'broadcast ' || l.broadcast_id, count(*) || ' dead letters are of deliveries that did not fail'
FROM dead_letter l
JOIN delivery d USING (broadcast_id, shard, provider_id, device_id)
WHERE d.state NOT IN ('dead', 'unconfirmed')
GROUP BY l.broadcast_id
ORDER BY 1
LIMIT 50
