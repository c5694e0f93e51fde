-- Broadcasts that a process died upon between closing the last batch and completing them.
SELECT br.id AS "id: BroadcastId"
FROM broadcast br
WHERE br.settled_at IS NULL AND br.state IN ('delivering', 'cancelling')
  AND NOT EXISTS (SELECT FROM batch b WHERE b.broadcast_id = br.id AND b.state <> 'done' OFFSET 0)
ORDER BY br.id
LIMIT 100
