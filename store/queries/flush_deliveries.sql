-- Records outcomes of deliveries that are still pending (or, at most once, sending) at the attempt they answer, and returns which those are: tallies,
-- dead letters and retries are made from these alone. The whole key comes from one relation: with shard = $1 instead, a plan
-- made while the tables were small reads every pending delivery there is. $2 to $10: one entry an outcome; a retry has seconds to wait ($8).
UPDATE delivery d
SET state = o.state,
    attempts = o.attempts,
    dead_reason = o.dead_reason,
    last_code = coalesce(o.code, d.last_code),
    next_attempt_at = now() + o.wait * interval '1 second',
    settled_at = CASE WHEN o.state <> 'pending' THEN now() END
FROM (SELECT $1::smallint AS shard, o.*
      FROM unnest($2::bigint[], $3::smallint[], $4::bigint[], $5::int[], $6::delivery_state[], $7::dead_reason[], $8::float8[],
                  $9::text[], $10::int[])
           WITH ORDINALITY AS o(broadcast_id, provider_id, device_id, before, state, dead_reason, wait, code, attempts, n)
      OFFSET 0) AS o
WHERE d.broadcast_id = o.broadcast_id AND d.shard = o.shard AND d.provider_id = o.provider_id AND d.device_id = o.device_id
  AND d.state IN ('pending', 'sending') AND d.attempts = o.before
RETURNING o.n AS "n!"
