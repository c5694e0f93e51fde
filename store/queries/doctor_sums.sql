-- Broadcasts whose tallies say something else than their deliveries do. Where a final broadcast has no deliveries any more,
-- its tallies are all there is.
WITH told AS (
    SELECT broadcast_id, provider_id, total, sent, dead_attempts_exhausted + dead_unregistered + dead_rejected AS dead, expired,
           skipped, cancelled, unconfirmed
    FROM broadcast_tally
    UNION ALL
    SELECT broadcast_id, provider_id, coalesce(sum(size) FILTER (WHERE attempt = 1), 0), sum(sent),
           sum(dead_attempts_exhausted + dead_unregistered + dead_rejected), sum(expired), sum(skipped), sum(cancelled),
           sum(unconfirmed)
    FROM batch
    GROUP BY 1, 2
), counted AS (
    SELECT broadcast_id, provider_id, count(*) AS total, count(*) FILTER (WHERE state = 'sent') AS sent,
           count(*) FILTER (WHERE state = 'dead') AS dead, count(*) FILTER (WHERE state = 'expired') AS expired,
           count(*) FILTER (WHERE state = 'skipped') AS skipped, count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
           count(*) FILTER (WHERE state = 'unconfirmed') AS unconfirmed
    FROM delivery
    GROUP BY 1, 2
)
SELECT 'broadcast ' || broadcast_id AS "subject!",
       format('its tallies at provider %s say %s, its deliveries %s (total, sent, dead, expired, skipped, cancelled, unconfirmed)',
              provider_id, ROW(t.total, t.sent, t.dead, t.expired, t.skipped, t.cancelled, t.unconfirmed),
              ROW(c.total, c.sent, c.dead, c.expired, c.skipped, c.cancelled, c.unconfirmed)) AS "detail!"
FROM told t
FULL JOIN counted c USING (broadcast_id, provider_id)
LEFT JOIN broadcast br ON br.id = broadcast_id
WHERE ROW(t.total, t.sent, t.dead, t.expired, t.skipped, t.cancelled, t.unconfirmed)
      IS DISTINCT FROM ROW(c.total, c.sent, c.dead, c.expired, c.skipped, c.cancelled, c.unconfirmed)
  AND NOT (c.total IS NULL AND br.settled_at IS NOT NULL)
ORDER BY 1
LIMIT 50
