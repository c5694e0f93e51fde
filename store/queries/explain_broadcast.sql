SELECT id AS "id: BroadcastId", state AS "state: BroadcastState", paused, created_at, expires_at, settled_at,
       audience AS "audience: AudienceKind", topics, replay_of AS "replay_of: BroadcastId",
       fan_out_until AS "fan_out_until: DeviceId", fan_out_page_at, fan_out_provider AS "fan_out_provider: ProviderId",
       fan_out_shard, fan_out_cursor AS "fan_out_cursor: DeviceId", now() AS "now!",
       routing = 'live_then_push' AS "live_first!"
FROM broadcast
WHERE id = $1
