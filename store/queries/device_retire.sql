UPDATE device SET retired_at = now(), retire_reason = 'replaced' WHERE shard = $1 AND id = ANY ($2)
