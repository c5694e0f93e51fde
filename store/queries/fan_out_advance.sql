-- A shard below 0 stays below 0: see the migration 0012.
UPDATE broadcast
SET state = $2, fan_out_provider = $3, fan_out_cursor = $4, fan_out_rank = $5, fan_out_until = $6,
    fan_out_shard = CASE WHEN fan_out_shard < 0 THEN -1 - $7::smallint ELSE $7 END, fan_out_page_at = clock_timestamp()
WHERE id = $1
