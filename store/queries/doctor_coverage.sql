-- Deliveries without a final state that are not in exactly one open batch, at the attempt which that batch makes; and open
-- batches that claim to have more, or less, left to do than there is.
WITH covered AS (
    SELECT b.id, d.broadcast_id, d.shard, d.provider_id, d.device_id
    FROM batch b
    JOIN delivery d ON d.broadcast_id = b.broadcast_id AND d.shard = b.shard AND d.provider_id = b.provider_id
                   AND d.device_id BETWEEN b.first_device_id AND b.last_device_id
    WHERE b.state <> 'done' AND d.state IN ('pending', 'sending') AND d.attempts = b.attempt - 1
    UNION ALL
    SELECT b.id, d.broadcast_id, d.shard, d.provider_id, d.device_id
    FROM batch b
    CROSS JOIN unnest(b.device_ids) AS l(device_id)
    JOIN delivery d ON d.broadcast_id = b.broadcast_id AND d.shard = b.shard AND d.provider_id = b.provider_id
                   AND d.device_id = l.device_id
    WHERE b.state <> 'done' AND d.state IN ('pending', 'sending') AND d.attempts = b.attempt - 1
), times AS (
    SELECT broadcast_id, shard, provider_id, device_id, count(*) AS n FROM covered GROUP BY 1, 2, 3, 4
), left_in AS (
    SELECT id, count(*) AS n FROM covered GROUP BY id
)
SELECT 'broadcast ' || d.broadcast_id AS "subject!",
       count(*) || ' deliveries, device ' || min(d.device_id) || ' for one, are in no open batch or in several' AS "detail!"
FROM delivery d
LEFT JOIN times t USING (broadcast_id, shard, provider_id, device_id)
WHERE d.state IN ('pending', 'sending') AND coalesce(t.n, 0) <> 1
GROUP BY d.broadcast_id
UNION ALL
SELECT 'batch ' || b.id || ' of broadcast ' || b.broadcast_id,
       'has ' || b.size - b.accounted || ' deliveries left by its tally, and ' || coalesce(l.n, 0) || ' in fact'
FROM batch b
LEFT JOIN left_in l ON l.id = b.id
WHERE b.state <> 'done' AND b.size - b.accounted <> coalesce(l.n, 0)
ORDER BY 1
LIMIT 50
