-- The newest $4 events of the user $1 before the number $2, with $3 of those that were not read. What was cancelled, has expired or is
-- gone has no content here: the reader leaves it out and knows how far it came. The plan is made for $3 (see connect.rs), so that
-- inbox_unread can be the way to what was not read.
SELECT i.seq, i.broadcast_id AS "broadcast: BroadcastId", i.created_at, i.acked_at IS NOT NULL AS "acknowledged!",
       i.read_at IS NOT NULL AS "read!", b.notification AS "notification?: BroadcastId", b.title AS "title?", b.body AS "body?",
       b.data AS "data?: Json<BTreeMap<String, String>>", b.expires_at AS "expires_at?"
FROM (SELECT *
      FROM inbox
      WHERE user_no = $1 AND seq < $2 AND (NOT $3::bool OR read_at IS NULL)
      ORDER BY seq DESC
      LIMIT $4) AS i
LEFT JOIN LATERAL (SELECT coalesce(origin_id, id) AS notification, title, body, data, expires_at
                   FROM broadcast
                   WHERE id = i.broadcast_id AND state NOT IN ('cancelling', 'cancelled') AND expires_at > now()
                   OFFSET 0) AS b ON true
ORDER BY i.seq DESC
