-- Work, and nobody to do it.
SELECT 'senders' AS "subject!", count(*) || ' broadcasts are under way, and no sender was heard of for 10 s' AS "detail!"
FROM broadcast
WHERE settled_at IS NULL AND NOT paused AND state <> 'scheduled'
  AND NOT EXISTS (SELECT FROM sender WHERE heartbeat_at > now() - interval '10 seconds')
HAVING count(*) > 0
