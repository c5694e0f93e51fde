-- Gives away the next slots of provider $1, moments to call it at: at most $2 of them, at $3 of its rate, and none further ahead
-- than $4 seconds. They begin $5 seconds from now at the earliest, since the answer takes time. What was let pass is never given
-- away later.
--
-- The clock is read once the row is ours. NO KEY, so that fan-out, whose rows refer to providers, is not waited for.
WITH pace AS MATERIALIZED (
    SELECT provider_id, rate_per_second, paced_until
    FROM provider_pace
    WHERE provider_id = $1 AND rate_per_second IS NOT NULL
    FOR NO KEY UPDATE
), looked AS MATERIALIZED (
    SELECT *, rate_per_second * $3::float8 AS per_second, clock_timestamp() AS at FROM pace
), start AS MATERIALIZED (
    SELECT *, greatest(paced_until, at + $5::float8 * interval '1 second') AS begins FROM looked
), given AS MATERIALIZED (
    SELECT *, extract(epoch FROM begins - at)::float8 AS begins_in,
           CASE WHEN begins > at + $4::float8 * interval '1 second' THEN 0
                -- Where a rate is low, the next slot may be all that lies so near.
                ELSE least($2::int, greatest(1, floor(per_second * ($4::float8 - extract(epoch FROM begins - at)))))::int
           END AS slots
    FROM start
), kept AS (
    UPDATE provider_pace p
    SET paced_until = given.begins + given.slots / given.per_second * interval '1 second'
    FROM given
    WHERE p.provider_id = given.provider_id AND given.slots > 0
)
SELECT rate_per_second, slots, extract(epoch FROM at)::float8 AS "at!", begins_in AS "begins_in!"
FROM given
