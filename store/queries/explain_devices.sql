-- All that is stored of the broadcast $1 and each of some devices ($2, $3: shard and id), by its key: the device, its delivery, its
-- dead letter, that of the broadcast $5 which $1 replays, and when its user acknowledged $1 live. $4: the topics of $1, of which those are returned that the device has,
-- or had when it was retired.
SELECT v.shard AS "shard!", v.id AS "id!: DeviceId", v.provider_id AS "provider_id!: ProviderId", p.name AS "provider!", v.user_id AS "user_id!",
       v.token AS "token!", v.installation_id AS "installation_id?", v.enabled AS "consent!", v.registered_at AS "registered_at!",
       v.retired_at AS "retired_at?", v.retire_reason AS "retire_reason?: RetireReason", v.retired_by AS "retired_by?: BroadcastId",
       v.retire_code AS "retire_code?", v.quarantined_at AS "quarantined_at?", v.quarantine_code AS "quarantine_code?",
       v.quarantine_detail AS "quarantine_detail?", v.quarantined_by AS "quarantined_by?: BroadcastId",
       ARRAY(SELECT t.topic FROM device_topic t
             WHERE t.shard = v.shard AND t.provider_id = v.provider_id AND t.device_id = v.id AND t.topic = ANY ($4::text[])
             UNION
             SELECT r.topic FROM unnest(v.retired_topics) AS r(topic) WHERE r.topic = ANY ($4)
             ORDER BY 1) AS "topics!",
       d.state AS "state?: DeliveryState", d.attempts AS "attempts?", d.next_attempt_at AS "next_attempt_at?",
       d.last_code AS "last_code?", d.dead_reason AS "dead_reason?: DeadReason", d.settled_at AS "settled_at?",
       l.attempts AS "letter_attempts?", l.reason AS "letter_reason?: DeadReason", l.created_at AS "letter_created_at?",
       l.code AS "letter_code?", l.detail AS "letter_detail?", l.replayed_by AS "letter_replayed_by?: BroadcastId",
       e.acked_at AS "acknowledged_at?", (o.device_id IS NOT NULL) AS "original_died!", o.replayed_by AS "original_replayed_by?: BroadcastId"
FROM unnest($2::smallint[], $3::bigint[]) AS k(shard, id)
CROSS JOIN LATERAL (SELECT * FROM device WHERE shard = k.shard AND id = k.id OFFSET 0) AS v
JOIN provider p ON p.id = v.provider_id
LEFT JOIN LATERAL (
    SELECT * FROM delivery
    WHERE broadcast_id = $1 AND shard = k.shard AND provider_id = v.provider_id AND device_id = k.id
    OFFSET 0
) AS d ON true
LEFT JOIN LATERAL (
    SELECT * FROM dead_letter
    WHERE broadcast_id = $1 AND shard = k.shard AND provider_id = v.provider_id AND device_id = k.id
    OFFSET 0
) AS l ON true
LEFT JOIN LATERAL (
    SELECT * FROM dead_letter
    WHERE broadcast_id = $5::bigint AND shard = k.shard AND provider_id = v.provider_id AND device_id = k.id
    OFFSET 0
) AS o ON true
LEFT JOIN LATERAL (
    SELECT i.acked_at
    FROM (SELECT id FROM inbox_user WHERE user_id = v.user_id OFFSET 0) AS u
    CROSS JOIN LATERAL (SELECT acked_at FROM inbox WHERE broadcast_id = $1 AND user_no = u.id OFFSET 0) AS i
    OFFSET 0
) AS e ON true
ORDER BY v.id DESC
