-- What ended, or was lost by, several senders in turn.
SELECT 'broadcast ' || b.broadcast_id AS "subject!",
       'batch ' || b.id || CASE WHEN b.size = 1 AND b.device_ids IS NOT NULL THEN ' with device ' || b.device_ids[1] ELSE '' END
       || ' was taken over ' || b.reclaims || ' times from senders that had ended or lost Postgres' AS "detail!"
FROM batch b
WHERE b.state <> 'done' AND b.reclaims >= 3
ORDER BY b.reclaims DESC, b.id
LIMIT 50
