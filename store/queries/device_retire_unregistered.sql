-- The provider said that these tokens are gone: the answer with the code $6 to a call for the broadcast $5. Only where token
-- and registration are those of the call: a device that has registered again meanwhile stays. A retired device has no topics;
-- those that it had are kept with it, so that it can be restored.
-- num_nulls: by IS NULL, a partial index of all live devices passes for a way to each of them.
WITH retired AS (
    UPDATE device d
    SET retired_at = now(), retire_reason = 'unregistered', retired_by = g.broadcast_id, retire_code = g.code,
        retired_topics = ARRAY(SELECT t.topic FROM device_topic t WHERE t.shard = d.shard AND t.device_id = d.id)
    FROM unnest($2::bigint[], $3::text[], $4::timestamptz[], $5::bigint[], $6::text[]) AS g(id, token, registered_at, broadcast_id, code)
    WHERE d.shard = $1 AND d.id = g.id AND d.token = g.token AND d.registered_at = g.registered_at AND num_nulls(d.retired_at) <> 0
    RETURNING d.id
)
DELETE FROM device_topic t USING retired r WHERE t.shard = $1 AND t.device_id = r.id
