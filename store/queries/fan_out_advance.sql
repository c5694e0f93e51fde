UPDATE broadcast
SET state = $2, fan_out_provider = $3, fan_out_cursor = $4, fan_out_rank = $5, fan_out_until = $6, fan_out_shard = $7,
    fan_out_page_at = clock_timestamp()
WHERE id = $1
