-- Adds what was recorded to the tallies, and ends the lease of batches whose owner has an answer for all it read. Should
-- something be left in one all the same, it is offered again rather than closed.
UPDATE batch b
SET sent = b.sent + t.sent, dead_attempts_exhausted = b.dead_attempts_exhausted + t.dead_attempts_exhausted,
    dead_unregistered = b.dead_unregistered + t.dead_unregistered, dead_rejected = b.dead_rejected + t.dead_rejected,
    expired = b.expired + t.expired, skipped = b.skipped + t.skipped, cancelled = b.cancelled + t.cancelled,
    unconfirmed = b.unconfirmed + t.unconfirmed, retried = b.retried + t.retried,
    state = CASE WHEN NOT t.close THEN b.state
                 WHEN b.accounted + t.total = b.size THEN 'done'
                 WHEN b.attempt = 1 THEN 'ready'
                 ELSE 'waiting' END::batch_state,
    next_attempt_at = CASE WHEN t.close AND b.accounted + t.total < b.size AND b.attempt > 1 THEN now() END,
    -- Offered again from where the queue is now: below, and at that very rank, nobody looks.
    rank = CASE WHEN t.close THEN greatest(b.rank, p.vtime + 1) ELSE b.rank END,
    lease_owner = CASE WHEN NOT t.close THEN b.lease_owner END,
    lease_expires_at = CASE WHEN NOT t.close THEN b.lease_expires_at END
FROM (
    SELECT $1::smallint AS shard, t.*, t.sent + t.dead_attempts_exhausted + t.dead_unregistered + t.dead_rejected + t.expired + t.skipped + t.cancelled
                + t.unconfirmed + t.retried AS total
    FROM unnest($2::bigint[], $3::boolean[], $4::int[], $5::int[], $6::int[], $7::int[], $8::int[], $9::int[], $10::int[],
                $11::int[], $12::int[])
         AS t(id, close, sent, dead_attempts_exhausted, dead_unregistered, dead_rejected, expired, skipped, cancelled,
              unconfirmed, retried)
    OFFSET 0
) AS t
CROSS JOIN provider p
WHERE b.shard = t.shard AND b.id = t.id AND p.id = b.provider_id
RETURNING b.broadcast_id AS "broadcast: BroadcastId", b.state = 'done' AS "done!"
