-- Of the devices $2 and the user $3, which are in the explicit list of the broadcast $1; no row where the list is not kept any more.
SELECT coalesce(bool_or($3::text = ANY (a.user_ids)), false) AS "user!",
       coalesce((SELECT array_agg(DISTINCT l.id)
                 FROM broadcast_audience x CROSS JOIN unnest(x.device_ids) AS l(id)
                 WHERE x.broadcast_id = $1 AND l.id = ANY ($2::bigint[])), '{}') AS "devices!: Vec<DeviceId>"
FROM broadcast_audience a
WHERE a.broadcast_id = $1
HAVING count(*) > 0
