-- Those of the broadcasts $1 that a process died upon between closing the last batch and completing them.
SELECT br.id AS "id: BroadcastId"
FROM broadcast br
WHERE br.id = ANY($1::bigint[]) AND br.state IN ('delivering', 'cancelling')
  AND NOT EXISTS (SELECT FROM batch b WHERE b.broadcast_id = br.id AND b.state <> 'done' OFFSET 0)
ORDER BY br.id
