-- The last of the $6 dead letters that a list looks at: none where there are not so many. The same conditions as in
-- dead_letter_list.sql.
SELECT broadcast_id AS "broadcast: BroadcastId", shard, provider_id AS "provider: ProviderId", device_id AS "device: DeviceId"
FROM dead_letter
WHERE ($2::bigint IS NULL OR broadcast_id = $2)
  AND ($7::timestamptz IS NULL OR broadcast_id < broadcast_id_at(least($7, now()) + interval '1 minute'))
  AND (broadcast_id, shard, provider_id, device_id) < ($3::bigint, $1::smallint, $4::smallint, $5::bigint)
ORDER BY broadcast_id DESC, shard DESC, provider_id DESC, device_id DESC
OFFSET $6::bigint - 1
LIMIT 1
