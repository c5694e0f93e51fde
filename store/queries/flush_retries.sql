-- The batches of what is to be tried again. $2 to $7: one entry a batch; $8 and $9: the devices, each with the number of its
-- batch. By subscript rather than joined to each other: without hash and merge joins, a thousand batches would be compared
-- with a thousand lists.
INSERT INTO batch (shard, broadcast_id, provider_id, attempt, failures, state, rank, size, next_attempt_at, device_ids)
SELECT $1, ($2::bigint[])[n], ($3::smallint[])[n], ($4::int[])[n], ($5::int[])[n], 'waiting', ($6::bigint[])[n],
       cardinality(ids), now() + ($7::float8[])[n] * interval '1 second', ids
FROM (
    SELECT n::int AS n, array_agg(device_id ORDER BY device_id) AS ids
    FROM unnest($8::bigint[], $9::bigint[]) AS l(n, device_id)
    GROUP BY n
) AS d
