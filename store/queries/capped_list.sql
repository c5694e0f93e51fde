-- Running broadcasts with a rate of their own, each with a row to reserve slots in.
WITH open AS MATERIALIZED (
    SELECT id, max_rate_per_second
    FROM broadcast
    WHERE max_rate_per_second IS NOT NULL AND settled_at IS NULL
      AND state IN ('fanning_out', 'delivering') AND expires_at > now() AND NOT paused
), made AS (
    INSERT INTO broadcast_pace (broadcast_id)
    SELECT id FROM open
    WHERE NOT EXISTS (SELECT FROM broadcast_pace p WHERE p.broadcast_id = open.id OFFSET 0)
    ON CONFLICT DO NOTHING
)
SELECT id AS "id!: BroadcastId", max_rate_per_second AS "max_rate_per_second!" FROM open ORDER BY id
