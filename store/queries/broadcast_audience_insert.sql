-- An explicit list in rows of at most $4 ids. One of $2 (users) and $3 (devices) is empty. The lists come sorted, so
-- that the rows of a device list are ranges that do not overlap.
INSERT INTO broadcast_audience (broadcast_id, ordinal, user_ids, device_ids)
SELECT $1::bigint, ((n - 1) / $4::bigint + 1)::int, array_agg(user_id ORDER BY n), NULL::bigint[]
FROM unnest($2::text[]) WITH ORDINALITY AS u(user_id, n)
GROUP BY (n - 1) / $4::bigint
UNION ALL
SELECT $1::bigint, ((n - 1) / $4::bigint + 1)::int, NULL, array_agg(device_id ORDER BY n)
FROM unnest($3::bigint[]) WITH ORDINALITY AS d(device_id, n)
GROUP BY (n - 1) / $4::bigint
