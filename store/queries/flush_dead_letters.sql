INSERT INTO dead_letter (shard, broadcast_id, provider_id, device_id, attempts, reason, code, detail)
SELECT $1, l.*
FROM unnest($2::bigint[], $3::smallint[], $4::bigint[], $5::int[], $6::dead_reason[], $7::text[], $8::text[]) AS l
