-- The batches of what is to be tried again. $2 to $7: one entry a batch; $8 and $9: the devices, each with the number of its
-- batch.
INSERT INTO batch (shard, broadcast_id, provider_id, attempt, failures, state, rank, size, next_attempt_at, device_ids)
SELECT $1, r.broadcast_id, r.provider_id, r.attempt, r.failures, 'waiting', r.rank, cardinality(d.ids),
       now() + r.wait * interval '1 second', d.ids
FROM unnest($2::bigint[], $3::smallint[], $4::int[], $5::int[], $6::bigint[], $7::float8[])
     WITH ORDINALITY AS r(broadcast_id, provider_id, attempt, failures, rank, wait, n)
JOIN (
    SELECT n, array_agg(device_id ORDER BY device_id) AS ids
    FROM unnest($8::bigint[], $9::bigint[]) AS l(n, device_id)
    GROUP BY n
) AS d ON d.n = r.n
