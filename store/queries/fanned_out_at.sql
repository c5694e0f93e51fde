-- When the last of the broadcasts $1 had its last page; NULL as long as one has not.
SELECT CASE WHEN bool_and(state NOT IN ('accepted', 'fanning_out')) THEN max(fan_out_page_at) END AS at
FROM broadcast
WHERE id = ANY($1::bigint[])
