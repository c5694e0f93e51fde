-- The consent of the device $2 in one of the shards $1: written, and noted, where it changes. Returns 1, or 0 where there is none.
WITH found AS MATERIALIZED (
    SELECT shard, id, enabled FROM device WHERE shard = ANY ($1::smallint[]) AND id = $2 FOR UPDATE
), changed AS (
    UPDATE device SET enabled = $3
    WHERE shard = ANY ($1) AND id = ANY (ARRAY (SELECT id FROM found WHERE enabled <> $3))
    RETURNING shard, id
), noted AS (
    INSERT INTO device_event (shard, device_id, kind)
    SELECT shard, id, CASE WHEN $3 THEN 'consent_given' ELSE 'consent_withdrawn' END::device_event_kind FROM changed
    ON CONFLICT DO NOTHING
)
SELECT count(*) AS "count!" FROM found
