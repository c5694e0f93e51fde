-- The broadcast whose last page is longest ago. The row lock is the lease: it lasts as long as the page's transaction,
-- and ends with the connection of a process that dies. NO KEY, so that dead letters, which refer to the broadcast, do not
-- wait for it. One that makes events waits while it is paused: they could not be called back. Once it has expired it makes none.
SELECT id AS "id: BroadcastId", audience AS "audience: AudienceKind", topics, priority AS "priority: Priority",
       fan_out_provider AS "provider: ProviderId",
       CASE WHEN fan_out_shard < 0 THEN -1 - fan_out_shard ELSE fan_out_shard END::smallint AS "shard!", fan_out_cursor AS cursor, fan_out_rank AS rank,
       (SELECT shards FROM settings) AS "shards!", trace_context, routing AS "routing: Routing", expires_at <= now() AS "over!",
       coalesce(fan_out_until, (SELECT last_value FROM device_id_seq)) AS "until!"
FROM broadcast
WHERE state IN ('accepted', 'fanning_out') AND (routing = 'push' OR NOT paused OR expires_at <= now())
ORDER BY fan_out_page_at NULLS FIRST, id
LIMIT 1
FOR NO KEY UPDATE SKIP LOCKED
