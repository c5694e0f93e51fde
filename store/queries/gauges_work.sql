-- What is under way, by provider. A final broadcast has no batches, so the table is the work of those that are not; deliveries,
-- which may be thousands times as many, are not looked at. The age of fresh work is that of its broadcast's last page.
SELECT p.name AS "provider!",
       coalesce(sum(w.pending), 0)::bigint AS "pending!", coalesce(sum(w.sent), 0)::bigint AS "sent!",
       coalesce(sum(w.attempts_exhausted), 0)::bigint AS "dead_attempts_exhausted!",
       coalesce(sum(w.unregistered), 0)::bigint AS "dead_unregistered!",
       coalesce(sum(w.rejected), 0)::bigint AS "dead_rejected!", coalesce(sum(w.expired), 0)::bigint AS "expired!",
       coalesce(sum(w.skipped), 0)::bigint AS "skipped!", coalesce(sum(w.cancelled), 0)::bigint AS "cancelled!",
       coalesce(sum(w.unconfirmed), 0)::bigint AS "unconfirmed!",
       coalesce(sum(w.ready), 0)::bigint AS "ready!", coalesce(sum(w.waiting), 0)::bigint AS "waiting!",
       coalesce(sum(w.leased), 0)::bigint AS "leased!", coalesce(sum(w.held), 0)::bigint AS "held!",
       greatest(extract(epoch FROM now() - min(coalesce(br.fan_out_page_at, br.created_at)) FILTER (WHERE w.ready > 0)), 0)::float8
           AS "fresh_seconds!",
       greatest(extract(epoch FROM now() - min(w.retry_at)), 0)::float8 AS "retry_seconds!",
       greatest(extract(epoch FROM now() - min(w.lease_until)), 0)::float8 AS "lease_seconds!"
FROM provider p
LEFT JOIN (
    SELECT provider_id, broadcast_id, sum(size - accounted) AS pending, sum(sent) AS sent,
           sum(dead_attempts_exhausted) AS attempts_exhausted, sum(dead_unregistered) AS unregistered,
           sum(dead_rejected) AS rejected, sum(expired) AS expired, sum(skipped) AS skipped, sum(cancelled) AS cancelled,
           sum(unconfirmed) AS unconfirmed,
           count(*) FILTER (WHERE state = 'ready') AS ready, count(*) FILTER (WHERE state = 'waiting') AS waiting,
           count(*) FILTER (WHERE state = 'leased') AS leased, count(*) FILTER (WHERE state = 'held') AS held,
           min(next_attempt_at) FILTER (WHERE state = 'waiting') AS retry_at,
           min(lease_expires_at) FILTER (WHERE state = 'leased') AS lease_until
    FROM batch
    GROUP BY provider_id, broadcast_id
) AS w ON w.provider_id = p.id
LEFT JOIN broadcast br ON br.id = w.broadcast_id
GROUP BY p.id, p.name
ORDER BY p.name
