-- Rows are locked in order of id, like everywhere. Without the shard, and num_nulls, so that they are found by their user
-- whatever the statistics say.
UPDATE device SET enabled = $3
WHERE shard = ANY ($1::smallint[])
  AND id = ANY (ARRAY (SELECT id FROM device WHERE user_id = $2
                         AND num_nulls(retired_at) <> 0
                       ORDER BY id FOR UPDATE))
