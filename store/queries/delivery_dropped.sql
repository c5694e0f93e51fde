-- Whether a final broadcast had deliveries, and its day has no partition any more.
SELECT EXISTS (SELECT FROM broadcast_tally t WHERE t.broadcast_id = br.id AND t.total > 0)
   AND NOT EXISTS (
       SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
       WHERE i.inhparent = 'delivery'::regclass AND NOT i.inhdetachpending
         AND c.relname = 'delivery_' || to_char(timestamp '2025-01-01' + (br.id >> 20) * interval '1 millisecond', 'YYYYMMDD'))
   AS "dropped!"
FROM broadcast br
WHERE br.id = $1 AND br.settled_at IS NOT NULL
