-- Broadcasts that are not final, by state; and for how long the one that waited longest has been without a page of fan-out.
SELECT s.state::text AS "state!", count(b.id) AS "broadcasts!",
       coalesce(extract(epoch FROM now() - min(coalesce(b.fan_out_page_at, b.created_at))
                                         FILTER (WHERE b.state IN ('accepted', 'fanning_out'))), 0)::float8 AS "fan_out_seconds!"
FROM unnest(enum_range(NULL::broadcast_state)) AS s(state)
LEFT JOIN (SELECT id, state, created_at, fan_out_page_at FROM broadcast WHERE settled_at IS NULL) AS b ON b.state = s.state
WHERE s.state NOT IN ('completed', 'cancelled')
GROUP BY s.state
ORDER BY s.state
