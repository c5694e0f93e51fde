INSERT INTO live_presence (user_no, sender_id)
SELECT u, $1 FROM unnest($2::bigint[]) AS u
ORDER BY u
ON CONFLICT DO NOTHING
