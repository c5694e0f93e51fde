-- Gives up installations that other devices of the same chunk take over: the unique index looks at each row at once.
UPDATE device SET installation_id = NULL WHERE shard = $1 AND id = ANY ($2)
