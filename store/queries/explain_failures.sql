-- The failed attempts of the broadcast $1 at each of some devices ($2 to $4: shard, provider and id), in order.
SELECT k.id AS "device!: DeviceId", f.attempt AS "attempt!", f.at AS "at!", f.due_at AS "due_at!", f.charged AS "charged!",
       f.code AS "code!", f.detail AS "detail!"
FROM unnest($2::smallint[], $3::smallint[], $4::bigint[]) AS k(shard, provider_id, id)
CROSS JOIN LATERAL (
    SELECT * FROM attempt_failure
    WHERE broadcast_id = $1 AND shard = k.shard AND provider_id = k.provider_id AND device_id = k.id
    OFFSET 0
) AS f
ORDER BY k.id, f.attempt
