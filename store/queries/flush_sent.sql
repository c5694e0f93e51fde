-- Records what the provider accepted: of each batch $2 a range of devices, $6 to $7, and in it those whose bit is set in $8. The
-- neighbours in between are read and left alone, which costs an eighth of finding each delivery by its key. As in
-- flush_deliveries.sql, what counts is still pending (or, at most once, sending) at the attempt it answers, and the whole key
-- comes from one relation. $3 to $5: broadcast, provider and attempt of each batch. Returns how many counted.
WITH counted AS (
    UPDATE delivery d
    SET state = 'sent', attempts = o.attempt, next_attempt_at = NULL, settled_at = now()
    FROM (SELECT $1::smallint AS shard, o.*
          FROM unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::int[], $6::bigint[], $7::bigint[], $8::bytea[])
               AS o(batch, broadcast_id, provider_id, attempt, first, last, bits)
          OFFSET 0) AS o
    WHERE d.broadcast_id = o.broadcast_id AND d.shard = o.shard AND d.provider_id = o.provider_id
      AND d.device_id BETWEEN o.first AND o.last AND get_bit(o.bits, d.device_id - o.first) = 1
      AND d.state IN ('pending', 'sending') AND d.attempts = o.attempt - 1
    RETURNING o.batch
)
SELECT batch AS "batch!: BatchId", count(*)::int AS "sent!" FROM counted GROUP BY batch
