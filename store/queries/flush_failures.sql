-- Attempts that failed and are made again. $2: how many are kept of a delivery; $3 to $10: one entry each.
INSERT INTO attempt_failure (shard, broadcast_id, provider_id, device_id, attempt, slot, due_at, charged, code, detail)
SELECT $1, f.broadcast_id, f.provider_id, f.device_id, f.attempt, f.attempt % $2::int, now() + f.wait * interval '1 second',
       f.charged, f.code, f.detail
FROM unnest($3::bigint[], $4::smallint[], $5::bigint[], $6::int[], $7::float8[], $8::boolean[], $9::text[], $10::text[])
     AS f(broadcast_id, provider_id, device_id, attempt, wait, charged, code, detail)
ON CONFLICT (broadcast_id, shard, provider_id, device_id, slot) DO UPDATE
SET at = EXCLUDED.at, attempt = EXCLUDED.attempt, due_at = EXCLUDED.due_at, charged = EXCLUDED.charged, code = EXCLUDED.code,
    detail = EXCLUDED.detail
