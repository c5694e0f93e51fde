WITH retired AS (
    UPDATE device SET retired_at = now(), retire_reason = 'requested'
    WHERE shard = ANY ($1::smallint[]) AND id = $2 AND retired_at IS NULL
    RETURNING shard, id
)
DELETE FROM device_topic t USING retired r WHERE t.shard = r.shard AND t.device_id = r.id
