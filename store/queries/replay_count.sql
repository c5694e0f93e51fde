-- How many dead letters a replay would take up: the same conditions as in fan_out_page.sql, and like there looked
-- up one by one.
SELECT count(*) AS "count!"
FROM unnest($2::smallint[]) AS s(shard)
CROSS JOIN LATERAL (SELECT * FROM dead_letter WHERE broadcast_id = $1 AND shard = s.shard OFFSET 0) AS l
WHERE (l.replayed_by IS NULL OR EXISTS (
      SELECT FROM delivery x
      WHERE x.broadcast_id = l.replayed_by AND x.shard = l.shard AND x.provider_id = l.provider_id
        AND x.device_id = l.device_id AND x.state IN ('expired', 'cancelled', 'skipped')
      OFFSET 0))
  AND CASE cardinality($3::dead_reason[]) WHEN 0 THEN l.reason <> 'unconfirmed' ELSE l.reason = ANY($3) END
  AND ($4::text IS NULL OR l.code = $4)
  AND ($5::smallint IS NULL OR l.provider_id = $5)
  AND (SELECT d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL FROM device d WHERE d.shard = l.shard AND d.id = l.device_id)
