-- Notes what a registration is about to change of devices that it refreshes: those of $2 that are quarantined are so no more, and
-- those of $3 have the consent $4 from now on. They are locked.
INSERT INTO device_event (shard, device_id, kind, since, code, detail, broadcast_id)
SELECT $1::smallint, d.id, 'quarantine_ended'::device_event_kind, d.quarantined_at, d.quarantine_code, d.quarantine_detail,
       d.quarantined_by
FROM unnest($2::bigint[]) AS q(id)
CROSS JOIN LATERAL (SELECT * FROM device WHERE shard = $1 AND id = q.id OFFSET 0) AS d
WHERE num_nulls(d.quarantined_at) = 0
UNION ALL
SELECT $1, c.id, CASE WHEN c.consent THEN 'consent_given' ELSE 'consent_withdrawn' END::device_event_kind, NULL, NULL, NULL, NULL
FROM unnest($3::bigint[], $4::boolean[]) AS c(id, consent)
ON CONFLICT DO NOTHING
