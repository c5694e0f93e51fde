-- Which slots could be given away next of the broadcasts $1, at most $2 of each, at $3 of its rate and none further ahead than $4
-- seconds; the first $5 seconds from now at the earliest. What was let pass is never given away later. The rows stay locked until it
-- is known how many are used (capped_advance.sql); one that somebody else is at is left out. The clock is read once they are ours.
WITH pace AS MATERIALIZED (
    SELECT p.broadcast_id, p.paced_until, b.max_rate_per_second * $3::float8 AS per_second, b.max_rate_per_second, w.most
    FROM unnest($1::bigint[], $2::int[]) AS w(broadcast_id, most)
    JOIN broadcast_pace p ON p.broadcast_id = w.broadcast_id
    JOIN broadcast b ON b.id = w.broadcast_id AND b.max_rate_per_second IS NOT NULL
    ORDER BY p.broadcast_id
    FOR NO KEY UPDATE OF p SKIP LOCKED
), looked AS MATERIALIZED (
    SELECT *, clock_timestamp() AS at FROM pace
), start AS MATERIALIZED (
    SELECT *, greatest(paced_until, at + $5::float8 * interval '1 second') AS begins FROM looked
)
SELECT broadcast_id AS "broadcast: BroadcastId", max_rate_per_second AS "max_rate_per_second!",
       extract(epoch FROM at)::float8 AS "at!", extract(epoch FROM begins - at)::float8 AS "begins_in!",
       CASE WHEN begins > at + $4::float8 * interval '1 second' THEN 0
            -- Where a rate is low, the next slot may be all that lies so near.
            ELSE least(most, greatest(1, floor(per_second * ($4::float8 - extract(epoch FROM begins - at)))))::int
       END AS "slots!"
FROM start
