-- Parks the provider $1 until an operator unparks it. One that is parked by hand already stays so since then, with the newer
-- reason; one that was parked for its failures is parked anew, so that a probe under way tells nothing of it. No probe is ever
-- due: in the year 9999, since a process of the version before reads that as a time. What its answers said of tokens stays
-- doubted, for calls that are still under way.
UPDATE provider
SET parked_since = now_or_then.since, parked_code = $2, parked_detail = $3, probe_at = timestamptz '9999-12-31 00:00+00',
    probes_failed = 0, parked_by_hand_since = now_or_then.since,
    doubted_since = CASE WHEN doubted_since = parked_since THEN now_or_then.since END
FROM (SELECT id, CASE WHEN parked_by_hand_since = parked_since THEN parked_since ELSE now() END AS since
      FROM provider
      WHERE name = $1
      FOR NO KEY UPDATE) AS now_or_then
WHERE provider.id = now_or_then.id
RETURNING provider.id AS "id: ProviderId"
