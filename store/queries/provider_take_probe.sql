-- Takes the probe that is due; nobody else takes one for $2 seconds, which is longer than it can last.
UPDATE provider
SET probe_at = now() + $2::float8 * interval '1 second'
WHERE id = $1 AND parked_since IS NOT NULL AND probe_at <= now()
RETURNING parked_since AS "since!", extract(epoch FROM now() - parked_since)::float8 AS "seconds!",
          coalesce(doubted_since = parked_since, false) AS "doubted!"
