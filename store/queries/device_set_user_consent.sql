-- As device_set_consent.sql, for the live devices of the user $2. Rows are locked in order of id, like everywhere. Without the shard,
-- and num_nulls, so that they are found by their user whatever the statistics say.
WITH found AS MATERIALIZED (
    SELECT shard, id, enabled FROM device WHERE user_id = $2 AND num_nulls(retired_at) <> 0 ORDER BY id FOR UPDATE
), changed AS (
    UPDATE device SET enabled = $3
    WHERE shard = ANY ($1::smallint[]) AND id = ANY (ARRAY (SELECT id FROM found WHERE enabled <> $3))
    RETURNING shard, id
), noted AS (
    INSERT INTO device_event (shard, device_id, kind)
    SELECT shard, id, CASE WHEN $3 THEN 'consent_given' ELSE 'consent_withdrawn' END::device_event_kind FROM changed
    ON CONFLICT DO NOTHING
)
SELECT count(*) AS "count!" FROM found
