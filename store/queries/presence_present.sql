-- Who of $1 has a connection at a sender that was heard of within $2 seconds.
SELECT u AS "user!: UserNo"
FROM unnest($1::bigint[]) AS u
WHERE EXISTS (SELECT FROM live_presence p
              CROSS JOIN LATERAL (SELECT FROM sender s
                                  WHERE s.id = p.sender_id AND s.heartbeat_at > now() - $2::float8 * interval '1 second' OFFSET 0) AS s
              WHERE p.user_no = u
              OFFSET 0)
