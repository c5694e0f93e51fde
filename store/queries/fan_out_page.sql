-- Makes the deliveries of one page, after the cursor $5 up to its end $6, and cuts them into batches of at most $10.
-- Only the branch of the audience's kind $2 runs. A batch is a range of the delivery key, except for users: their devices
-- lie anywhere between those of other pages, so the batch names them one by one. Devices, but for a page of everyone, and what
-- became of a replay are looked up one by one, by their key: as joins, these were seen to read all devices there are. Topics and
-- devices ask for nothing but columns and predicate of device_sendable, which answers without a look at the row.
WITH marked AS (
    -- A dead letter is taken up by one replay at a time: by the next one only where the last did not come to call. Devices that are retired or
    -- quarantined, or without consent, keep theirs.
    UPDATE dead_letter l
    SET replayed_by = $1
    FROM (SELECT * FROM broadcast WHERE id = $1 OFFSET 0) AS br
    WHERE $2::audience_kind = 'dead_letters'
      AND l.broadcast_id = br.replay_of AND l.shard = $3 AND l.provider_id = $4 AND l.device_id > $5 AND l.device_id <= $6
      AND br.replay_listed = 0
      -- The slow tier leaves to people what was ever taken up.
      AND (l.replayed_by IS NULL OR br.slow_round IS NULL AND EXISTS (
          SELECT FROM delivery x
          WHERE x.broadcast_id = l.replayed_by AND x.shard = l.shard AND x.provider_id = l.provider_id
            AND x.device_id = l.device_id AND x.state IN ('expired', 'cancelled', 'skipped')
          OFFSET 0))
      AND CASE cardinality(br.replay_reasons) WHEN 0 THEN l.reason <> 'unconfirmed' ELSE l.reason = ANY(br.replay_reasons) END
      AND (br.replay_code IS NULL OR l.code = br.replay_code)
      AND (br.replay_provider IS NULL OR l.provider_id = br.replay_provider)
      AND (br.replay_from IS NULL OR l.created_at >= br.replay_from)
      AND (br.replay_to IS NULL OR l.created_at < br.replay_to)
      AND (SELECT d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL FROM device d WHERE d.shard = l.shard AND d.id = l.device_id)
    RETURNING l.device_id AS id
), named AS (
    -- The same of those that a replay names. What may have been accepted is not taken up by a name alone.
    UPDATE dead_letter l
    SET replayed_by = $1
    FROM (SELECT br.replay_of, $3::smallint AS shard, $4::smallint AS provider_id, n.device_id
          FROM broadcast br
          JOIN broadcast_audience a ON a.broadcast_id = br.id
          CROSS JOIN unnest(a.device_ids) AS n(device_id)
          WHERE br.id = $1 AND br.replay_listed > 0 AND a.ordinal = $6
          OFFSET 0) AS w
    WHERE $2::audience_kind = 'dead_letters'
      AND l.broadcast_id = w.replay_of AND l.shard = w.shard AND l.provider_id = w.provider_id AND l.device_id = w.device_id
      AND (l.replayed_by IS NULL OR EXISTS (
          SELECT FROM delivery x
          WHERE x.broadcast_id = l.replayed_by AND x.shard = l.shard AND x.provider_id = l.provider_id
            AND x.device_id = l.device_id AND x.state IN ('expired', 'cancelled', 'skipped')
          OFFSET 0))
      AND l.reason <> 'unconfirmed'
      AND (SELECT d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL FROM device d WHERE d.shard = l.shard AND d.id = l.device_id)
    RETURNING l.device_id AS id
), target AS (
    SELECT d.id
    FROM device d
    WHERE $2::audience_kind = 'everyone'
      AND d.shard = $3 AND d.provider_id = $4 AND d.id > $5 AND d.id <= $6 AND d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL
    UNION ALL
    SELECT d.id
    FROM (SELECT DISTINCT device_id FROM device_topic
          WHERE topic = ANY($8::text[]) AND shard = $3 AND provider_id = $4 AND device_id > $5 AND device_id <= $6) AS t
    CROSS JOIN LATERAL (SELECT id FROM device WHERE shard = $3 AND provider_id = $4 AND id = t.device_id AND enabled AND retired_at IS NULL
                          AND quarantined_at IS NULL
                        OFFSET 0) AS d
    WHERE $2 = 'topics'
    UNION ALL
    SELECT d.id
    FROM broadcast_audience a
    CROSS JOIN unnest(a.user_ids) AS u(user_id)
    CROSS JOIN LATERAL (SELECT * FROM device WHERE user_id = u.user_id OFFSET 0) AS d
    WHERE $2 = 'users' AND a.broadcast_id = $1 AND a.ordinal = $6
      AND d.shard = $3 AND d.provider_id = $4 AND d.id <= $7 AND d.enabled AND d.retired_at IS NULL AND d.quarantined_at IS NULL
    UNION ALL
    SELECT d.id
    FROM broadcast_audience a
    CROSS JOIN unnest(a.device_ids) AS l(device_id)
    CROSS JOIN LATERAL (SELECT id FROM device WHERE shard = $3 AND provider_id = $4 AND id = l.device_id AND enabled AND retired_at IS NULL
                          AND quarantined_at IS NULL
                        OFFSET 0) AS d
    WHERE $2 = 'devices' AND a.broadcast_id = $1 AND a.ordinal = $6 AND d.id <= $7
    UNION ALL
    SELECT id FROM marked
    UNION ALL
    SELECT id FROM named
), page AS MATERIALIZED (
    SELECT array_agg(id ORDER BY id) AS ids, count(*)::int AS of FROM target
), made AS (
    INSERT INTO delivery (broadcast_id, shard, provider_id, device_id)
    -- In order of the key: each row goes beside the last.
    SELECT $1, $3, $4, unnest(ids) FROM page
), cut AS (
    SELECT chunk, ids[chunk * $10::int + 1] AS first_id, ids[least((chunk + 1) * $10::int, of)] AS last_id,
           least($10::int, of - chunk * $10::int) AS size,
           CASE WHEN $2 = 'users' THEN ids[chunk * $10::int + 1 : (chunk + 1) * $10::int] END AS ids
    FROM page
    CROSS JOIN generate_series(0, (of + $10::int - 1) / $10::int - 1) AS chunk
)
INSERT INTO batch (shard, broadcast_id, provider_id, attempt, state, size, rank, first_device_id, last_device_id, device_ids)
SELECT $3, $1, $4, 1,
       -- With a rate of its own it leaves the queue of all a little at a time: capped_claim.sql.
       CASE WHEN (SELECT max_rate_per_second FROM broadcast WHERE id = $1) IS NULL THEN 'ready' ELSE 'held' END::batch_state, size,
       -- Thousandths of a delivery at weight 1, from where the provider's queue is or from this broadcast's last batch.
       greatest(p.vtime, $9::bigint) + sum(size * 1000 / $11::bigint) OVER (ORDER BY chunk)::bigint,
       CASE WHEN $2 <> 'users' THEN first_id END, CASE WHEN $2 <> 'users' THEN last_id END, ids
FROM cut CROSS JOIN provider p
WHERE p.id = $4
ORDER BY chunk
RETURNING size, rank
