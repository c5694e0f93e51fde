-- What lies beside the work: broadcasts whose batches are 60 % done, the rest ready behind the work in the queue or waiting
-- for their time, and which gave up a twentieth; and 200 final broadcasts for each of them. All devices have a topic in common. Ten
-- days before had one broadcast each, which all devices got.
CREATE PROCEDURE history(broadcasts int, devices int) LANGUAGE plpgsql AS $$
DECLARE
    past bigint;
BEGIN
    INSERT INTO device (id, shard, provider_id, user_id, token)
    SELECT 20000 + n, 0, 1, 'reader-' || n, 'history-' || n FROM generate_series(1, devices) AS n;
    INSERT INTO device_topic SELECT 'news', 0, 1, 20000 + n FROM generate_series(1, devices) AS n;
    INSERT INTO inbox_user (id, user_id, last_seq) OVERRIDING SYSTEM VALUE
    SELECT 20000 + n, 'reader-' || n, 1 FROM generate_series(1, devices, 10) AS n;
    -- Every tenth as many were retired, and every hundredth as many are quarantined.
    INSERT INTO device (id, shard, provider_id, user_id, token, retired_at, retire_reason, retired_by, retire_code, retired_topics)
    SELECT 2000000 + n, 0, 1, 'retired-' || n, 'retired-' || n, now(), 'unregistered', 1, '410', '{}'
    FROM generate_series(1, devices / 10) AS n;
    INSERT INTO device (id, shard, provider_id, user_id, token, quarantined_at, quarantine_code, quarantine_detail, quarantined_by)
    SELECT 3000000 + n, 0, 1, 'quarantined-' || n, 'quarantined-' || n, now(), '403', '', 1
    FROM generate_series(1, devices / 100) AS n;

    INSERT INTO broadcast (id, client_id, idempotency_key, request_hash, title, body, data, priority, audience, state,
                           created_at, expires_at, settled_at, scheduled_at, fan_out_page_at)
    -- Every other one had been scheduled.
    SELECT past(100 + n), 'test', 'final-' || n, '', 'title', 'body', '{}', 'normal', 'everyone', 'completed',
           '2025-02-01', '2100-01-01', '2025-02-02', CASE n % 2 WHEN 0 THEN timestamptz '2025-02-01' END, '2025-02-01'
    FROM generate_series(1, 200 * broadcasts) AS n;
    INSERT INTO broadcast_tally SELECT past(100 + n), 1, 1, 1, 0, 0, 0, 0, 0, 0, 0 FROM generate_series(1, 200 * broadcasts) AS n;
    -- Their rounds of the slow tier have been, or are not due.
    UPDATE broadcast_tally
    SET sent = 0, dead_attempts_exhausted = 1, slow_tier_from = CASE WHEN broadcast_id % 2 = 0 THEN timestamptz '2099-01-01' END
    WHERE total = 1;

    -- The full inbox has as many newer events that were read; every third device has a user with an inbox.
    INSERT INTO inbox (user_no, seq, broadcast_id, acked_at, read_at)
    SELECT full_inbox(), 2000000 + n, 8000000 + n, now(), now() FROM generate_series(1, devices) AS n;
    UPDATE inbox_user SET last_seq = 2000000 + devices WHERE id = full_inbox();
    INSERT INTO inbox_user (id, user_id, last_seq) OVERRIDING SYSTEM VALUE
    SELECT 6000000 + n, 'holder-' || n, broadcasts FROM generate_series(1, devices / 3) AS n;

    -- What is known of such a day is that all of it is of one broadcast, and nothing pending.
    FOR past IN SELECT broadcast_id_at(day) + 1 FROM generate_series(timestamptz '2025-01-22 12:00+00', '2025-01-31 12:00+00', '1 day') AS day LOOP
        INSERT INTO broadcast (id, client_id, idempotency_key, request_hash, title, body, data, priority, audience, state,
                               created_at, expires_at, settled_at)
        VALUES (past, 'test', 'day-' || past, '', 'title', 'body', '{}', 'normal', 'everyone', 'completed', '2025-01-22', '2100-01-01',
                '2025-02-01');
        INSERT INTO broadcast_tally VALUES (past, 1, devices, devices, 0, 0, 0, 0, 0, 0, 0);
        INSERT INTO delivery (broadcast_id, shard, provider_id, device_id, attempts, state, settled_at)
        SELECT past, 0, 1, 20000 + n, 1, 'sent', now() FROM generate_series(1, devices) AS n;
    END LOOP;

    -- One broadcast after another, so that each index grows at its end.
    FOR past IN SELECT past(n) FROM generate_series(1, broadcasts) AS n ORDER BY 1 LOOP
        INSERT INTO broadcast (id, client_id, idempotency_key, request_hash, title, body, data, priority, audience, state,
                               created_at, expires_at)
        VALUES (past, 'test', 'past-' || past, '', 'title', 'body', '{}', 'normal', 'everyone', 'delivering', '2025-02-01',
                '2100-01-01');

        INSERT INTO delivery (broadcast_id, shard, provider_id, device_id, attempts, state, settled_at)
        SELECT past, 0, 1, 20001 + n, 1, CASE WHEN n % 250 < 150 THEN 'sent' ELSE 'pending' END::delivery_state,
               CASE WHEN n % 250 < 150 THEN now() END
        FROM generate_series(0, devices - 1) AS n;

        INSERT INTO batch (broadcast_id, shard, provider_id, rank, attempt, size, first_device_id, last_device_id, state,
                           sent, next_attempt_at)
        SELECT past, 0, 1, 1000000 + n, 1, 50, 20001 + n, 20050 + n,
               CASE WHEN n % 250 < 150 THEN 'done' WHEN n % 250 < 200 THEN 'ready' ELSE 'waiting' END::batch_state,
               CASE WHEN n % 250 < 150 THEN 50 ELSE 0 END,
               CASE WHEN n % 250 >= 200 THEN timestamptz '2099-01-01' + n * interval '1 second' END
        FROM generate_series(0, devices - 1, 50) AS n;

        INSERT INTO dead_letter (broadcast_id, shard, provider_id, device_id, attempts, reason, code, detail)
        SELECT past, 0, 1, 20001 + n, 1, 'rejected', '400', '' FROM generate_series(0, devices - 1, 20) AS n;
        INSERT INTO attempt_failure (shard, broadcast_id, provider_id, device_id, attempt, slot, due_at, charged, code, detail)
        SELECT 0, past, 1, 20001 + n, 1, 1, now(), true, '503', '' FROM generate_series(0, devices - 1, 20) AS n;
        -- Every tenth is of a user of the live channel.
        INSERT INTO inbox (user_no, seq, broadcast_id, acked_at)
        SELECT 20001 + n, past, past, now() FROM generate_series(0, devices - 1, 10) AS n;
        INSERT INTO broadcast_live VALUES (past, devices, devices / 10);
        INSERT INTO inbox (user_no, seq, broadcast_id) SELECT 6000000 + n, past, past FROM generate_series(1, devices / 3) AS n;
        INSERT INTO broadcast_audience (broadcast_id, ordinal, device_ids)
        SELECT past, n, ids(20001, 20010) FROM generate_series(1, devices / 500) AS n;
    END LOOP;
END
$$;
