-- Never waits for a row that somebody holds. Returns the providers whose virtual time is as great as told by now; the others
-- are told again with the next heartbeat.
WITH free AS MATERIALIZED (
    SELECT p.id, a.vtime
    FROM unnest($1::smallint[], $2::bigint[]) AS a(id, vtime)
    JOIN provider p ON p.id = a.id
    WHERE p.vtime < a.vtime
    FOR UPDATE OF p SKIP LOCKED
), advanced AS (
    UPDATE provider p SET vtime = free.vtime
    FROM free
    WHERE p.id = free.id
    RETURNING p.id
)
SELECT id AS "id!: ProviderId" FROM advanced
UNION ALL
SELECT p.id
FROM unnest($1::smallint[], $2::bigint[]) AS a(id, vtime)
JOIN provider p ON p.id = a.id
WHERE p.vtime >= a.vtime
