-- What should have been taken up long ago: retries, leases that ran out, broadcasts to start and to fan out.
SELECT 'batch ' || b.id || ' of broadcast ' || b.broadcast_id AS "subject!",
       CASE b.state WHEN 'waiting' THEN 'a retry is due since ' || to_char(b.next_attempt_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
                    ELSE 'its lease ran out at ' || to_char(b.lease_expires_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END AS "detail!"
FROM batch b
JOIN broadcast br ON br.id = b.broadcast_id
JOIN provider p ON p.id = b.provider_id
WHERE (b.state = 'waiting' AND b.next_attempt_at < now() - interval '1 minute'
       OR b.state = 'leased' AND b.lease_expires_at < now() - interval '2 minutes')
  AND NOT br.paused AND p.parked_since IS NULL AND (p.held_until IS NULL OR p.held_until < now() - interval '1 minute')
UNION ALL
SELECT 'broadcast ' || id, 'its deliveries are not being made since '
                           || to_char(coalesce(fan_out_page_at, greatest(created_at, scheduled_at)), 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
FROM broadcast
WHERE state IN ('accepted', 'fanning_out') AND NOT (paused AND routing <> 'push') AND coalesce(fan_out_page_at, greatest(created_at, scheduled_at)) < now() - interval '1 minute'
UNION ALL
SELECT 'broadcast ' || id, 'was to start at ' || to_char(scheduled_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ', and has not'
FROM broadcast
WHERE state = 'scheduled' AND scheduled_at < now() - interval '1 minute'
ORDER BY 1
LIMIT 50
