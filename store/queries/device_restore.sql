-- Undoes what a provider's word did to the devices $2, and notes what that was; those that somebody else has changed meanwhile stay
-- as they are. Locked in order of id, like everywhere.
WITH found AS MATERIALIZED (
    SELECT d.*
    FROM (SELECT id FROM unnest($2::bigint[]) AS l(id) ORDER BY id) AS l
    CROSS JOIN LATERAL (SELECT * FROM device WHERE shard = $1 AND id = l.id FOR UPDATE OFFSET 0) AS d
    WHERE d.retire_reason = 'unregistered' OR (num_nulls(d.retired_at) = 1 AND num_nulls(d.quarantined_at) = 0)
), restored AS (
    UPDATE device d
    SET retired_at = NULL, retire_reason = NULL, retired_by = NULL, retire_code = NULL, retired_topics = NULL,
        quarantined_at = NULL, quarantined_by = NULL, quarantine_code = NULL, quarantine_detail = NULL
    FROM found f
    WHERE d.shard = f.shard AND d.id = f.id
    RETURNING d.id, d.provider_id, f.retired_topics
), noted AS (
    INSERT INTO device_event (shard, device_id, kind, since, code, detail, broadcast_id)
    SELECT f.shard, f.id, e.kind, e.since, e.code, e.detail, e.broadcast_id
    FROM found f
    CROSS JOIN LATERAL (VALUES
        ('retirement_undone'::device_event_kind, f.retired_at, f.retire_code, NULL, f.retired_by),
        ('quarantine_undone', f.quarantined_at, f.quarantine_code, f.quarantine_detail, f.quarantined_by)
    ) AS e(kind, since, code, detail, broadcast_id)
    WHERE e.since IS NOT NULL
    ON CONFLICT DO NOTHING
), subscribed AS (
    INSERT INTO device_topic (topic, shard, provider_id, device_id)
    SELECT t.topic, $1, r.provider_id, r.id
    FROM restored r
    CROSS JOIN unnest(r.retired_topics) AS t(topic)
    ORDER BY 1, 2, 3, 4
    ON CONFLICT DO NOTHING
)
SELECT count(*) AS "count!" FROM restored
