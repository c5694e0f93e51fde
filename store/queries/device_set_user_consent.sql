-- Rows are locked in order of id, like everywhere.
UPDATE device SET enabled = $3
WHERE shard = $1
  AND id = ANY (ARRAY (SELECT id FROM device WHERE shard = $1 AND user_id = $2 AND retired_at IS NULL
                       ORDER BY id FOR UPDATE))
