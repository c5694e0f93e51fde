-- The newest devices of a user, retired ones included: at most $2.
SELECT shard, id FROM device WHERE user_id = $1 ORDER BY id DESC LIMIT $2
