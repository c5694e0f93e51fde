UPDATE provider p SET vtime = a.vtime
FROM unnest($1::smallint[], $2::bigint[]) AS a(id, vtime)
WHERE p.id = a.id AND p.vtime < a.vtime
