-- Counts by broadcast and provider: the folded tallies of a final broadcast, else the sums of its batches. One statement,
-- so one snapshot: a broadcast that becomes final meanwhile is seen before or after, never both.
SELECT c.broadcast_id AS "broadcast_id!: BroadcastId", c.provider_id AS "provider_id!: ProviderId", p.name AS provider,
       CASE WHEN p.held_until > now() THEN p.held_until END AS held_until,
       p.parked_since, p.parked_code,
       c.total AS "total!", c.sent AS "sent!", c.dead_attempts_exhausted AS "dead_attempts_exhausted!",
       c.dead_unregistered AS "dead_unregistered!", c.dead_rejected AS "dead_rejected!", c.expired AS "expired!",
       c.skipped AS "skipped!", c.cancelled AS "cancelled!", c.unconfirmed AS "unconfirmed!", c.retried AS "retried!", c.retrying AS "retrying!"
FROM (
    SELECT broadcast_id, provider_id, total, sent, dead_attempts_exhausted, dead_unregistered, dead_rejected, expired, skipped,
           cancelled, unconfirmed, retried, 0::bigint AS retrying
    FROM broadcast_tally
    WHERE broadcast_id = ANY($1::bigint[])
    UNION ALL
    SELECT br.id, b.provider_id, b.total, b.sent, b.dead_attempts_exhausted, b.dead_unregistered, b.dead_rejected, b.expired,
           b.skipped, b.cancelled, b.unconfirmed, b.retried, b.retrying
    FROM broadcast br
    -- OFFSET 0: by the index on the broadcast, whatever the statistics say.
    CROSS JOIN LATERAL (
        SELECT b.provider_id,
               coalesce(sum(b.size) FILTER (WHERE b.attempt = 1), 0) AS total,
               sum(b.sent) AS sent, sum(b.dead_attempts_exhausted) AS dead_attempts_exhausted,
               sum(b.dead_unregistered) AS dead_unregistered, sum(b.dead_rejected) AS dead_rejected,
               sum(b.expired) AS expired, sum(b.skipped) AS skipped, sum(b.cancelled) AS cancelled,
               sum(b.unconfirmed) AS unconfirmed, sum(b.retried) AS retried,
               coalesce(sum(b.size - b.accounted) FILTER (WHERE b.attempt > 1), 0) AS retrying
        FROM batch b
        WHERE b.broadcast_id = br.id
        GROUP BY b.provider_id
        OFFSET 0
    ) AS b
    WHERE br.id = ANY($1::bigint[]) AND br.settled_at IS NULL
) AS c
JOIN provider p ON p.id = c.provider_id
ORDER BY c.broadcast_id, p.name
