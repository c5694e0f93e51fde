-- Slots of the broadcasts $1 are given away until $2 seconds after $3, the database's clock when it was asked for them.
UPDATE broadcast_pace p
SET paced_until = to_timestamp(w.at) + w.until * interval '1 second'
FROM (SELECT * FROM unnest($1::bigint[], $2::float8[], $3::float8[]) AS w(broadcast_id, until, at) OFFSET 0) AS w
WHERE p.broadcast_id = w.broadcast_id
