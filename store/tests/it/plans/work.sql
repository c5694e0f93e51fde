-- What each statement finds to do, the same in every database. Ids are fixed, so that the parameters can name them.
INSERT INTO provider (name, kind) VALUES ('push', 'webhook'), ('other', 'webhook');
INSERT INTO provider_pace (provider_id, rate_per_second) VALUES (1, 1000);
INSERT INTO sender (id, lock_key, heartbeat_at) VALUES (me(), 1, now()), (somebody(), 2, now() - interval '1 minute');
-- Those from 12001 are all of one user.
INSERT INTO device (id, shard, provider_id, user_id, token, registered_at)
SELECT n, 0, 1, CASE WHEN n > 12000 THEN 'many' ELSE 'user-' || n END, 'token-' || n, '2025-01-01'
FROM generate_series(1, 14000) AS n;
-- Quarantined, and retired by a provider's word.
INSERT INTO device (id, shard, provider_id, user_id, token, installation_id, quarantined_at, quarantine_code, quarantine_detail,
                    quarantined_by)
SELECT n, 0, 1, 'unfit-' || n, 'unfit-' || n, 'unfit-' || n, now(), '403', '', at_work() FROM generate_series(19001, 19020) AS n;
INSERT INTO device (id, shard, provider_id, user_id, token, installation_id, retired_at, retire_reason, retired_by, retire_code,
                    retired_topics)
SELECT n, 0, 1, 'unfit-' || n, 'unfit-' || n, 'unfit-' || n, now(), 'unregistered', at_work(), '410', '{sports}'
FROM generate_series(19021, 19040) AS n;
INSERT INTO device_topic
SELECT topic, 0, 1, n FROM generate_series(1, 14000) AS n, (VALUES ('news', 1), ('sports', 10)) AS t(topic, nth) WHERE n % nth = 0;

-- At work, ended, all done but not yet completed, final, paused, and resumed.
INSERT INTO broadcast (id, client_id, idempotency_key, request_hash, title, body, data, priority, audience, state, paused,
                       created_at, expires_at, settled_at)
SELECT id, 'test', 'work-' || id, '', '', '', '{}', 'normal', 'everyone', state, id = paused(), '2025-02-01', '2100-01-01',
       CASE state WHEN 'completed' THEN now() END
FROM (VALUES (at_work(), 'delivering'::broadcast_state), (ended(), 'cancelling'), (all_done(), 'delivering'),
             (final(), 'completed'), (paused(), 'delivering'), (resumed(), 'delivering')) AS b(id, state);
-- Half-way through its fan-out: a replay, with lists as well, so that it can stand for every kind of audience.
INSERT INTO broadcast (id, client_id, idempotency_key, request_hash, title, body, data, priority, audience, state, created_at,
                       expires_at, replay_of, origin_id)
VALUES (fanning_out(), 'test', 'fanning out', '', '', '', '{}', 'normal', 'dead_letters', 'fanning_out', '2025-02-01',
        '2100-01-01', final(), final());
-- One whose time has come, and one whose time has not.
INSERT INTO broadcast (id, client_id, idempotency_key, request_hash, title, body, data, priority, audience, state, created_at,
                       scheduled_at, expires_at)
SELECT scheduled() + n, 'test', 'scheduled ' || n, '', '', '', '{}', 'normal', 'everyone', 'scheduled', '2025-02-12',
       CASE n WHEN 0 THEN now() - interval '1 second' ELSE timestamptz '2099-01-01' END, '2100-01-01'
FROM generate_series(0, 1) AS n;
-- A replay that names its dead letters.
INSERT INTO broadcast (id, client_id, idempotency_key, request_hash, title, body, data, priority, audience, state, created_at,
                       expires_at, replay_of, origin_id, replay_listed, fan_out_shard)
VALUES (naming(), 'test', 'naming', '', '', '', '{}', 'normal', 'dead_letters', 'fanning_out', '2025-02-01', '2100-01-01', final(),
        final(), 250, -1);
INSERT INTO broadcast_audience (broadcast_id, ordinal, device_ids) VALUES (naming(), 1, ids(3001, 3250));
INSERT INTO broadcast_audience (broadcast_id, ordinal, user_ids, device_ids)
SELECT fanning_out(), 1, array_agg('user-' || n), NULL FROM generate_series(3001, 3200) AS n
UNION ALL
SELECT fanning_out(), 2, NULL, ids(4001, 4200);
-- It waits for a round of the slow tier.
INSERT INTO broadcast_tally VALUES (final(), 1, 500, 490, 10, 0, 0, 0, 0, 0, 0);

INSERT INTO delivery (broadcast_id, shard, provider_id, device_id, attempts)
SELECT at_work(), 0, 1, n, CASE WHEN n > 10000 THEN 1 ELSE 0 END FROM generate_series(1, 10800) AS n
UNION ALL
SELECT ended(), 0, 1, n, CASE WHEN n > 2000 THEN 1 ELSE 0 END FROM generate_series(1, 2400) AS n;

-- Ranges of 500 devices: 1–10 ready, 11–14 ours, 15–20 of a sender that lost them.
INSERT INTO batch (id, broadcast_id, shard, provider_id, rank, attempt, size, first_device_id, last_device_id, state,
                   lease_owner, lease_epoch, lease_expires_at)
SELECT n, at_work(), 0, 1, n, 1, 500, 500 * n - 499, 500 * n,
       CASE WHEN n > 10 THEN 'leased' ELSE 'ready' END::batch_state,
       CASE WHEN n > 14 THEN somebody() WHEN n > 10 THEN me() END, 1,
       CASE WHEN n > 14 THEN now() - interval '1 second' WHEN n > 10 THEN '2100-01-01' END
FROM generate_series(1, 20) AS n;
-- Retries of 100 devices, listed: 21–24 due, 25–28 ours.
INSERT INTO batch (id, broadcast_id, shard, provider_id, rank, attempt, size, device_ids, state, next_attempt_at,
                   lease_owner, lease_epoch, lease_expires_at)
SELECT n, at_work(), 0, 1, n, 2, 100, ids(7901 + 100 * n, 8000 + 100 * n),
       CASE WHEN n > 24 THEN 'leased' ELSE 'waiting' END::batch_state, CASE WHEN n <= 24 THEN now() END,
       CASE WHEN n > 24 THEN me() END, 1, CASE WHEN n > 24 THEN timestamptz '2100-01-01' END
FROM generate_series(21, 28) AS n;
-- Of the ended broadcast: ranges 31–34, listed retries 35–38.
INSERT INTO batch (id, broadcast_id, shard, provider_id, rank, attempt, size, first_device_id, last_device_id, device_ids,
                   state, next_attempt_at)
SELECT n, ended(), 0, 1, n, 1, 500, 500 * (n - 30) - 499, 500 * (n - 30), NULL, 'ready'::batch_state, NULL::timestamptz
FROM generate_series(31, 34) AS n
UNION ALL
SELECT n, ended(), 0, 1, n, 2, 100, NULL, NULL, ids(2001 + 100 * (n - 35), 2100 + 100 * (n - 35)), 'waiting', timestamptz '2100-01-01'
FROM generate_series(35, 38) AS n;
-- Of the one that is all done: 41–60.
INSERT INTO batch (id, broadcast_id, shard, provider_id, rank, attempt, size, first_device_id, last_device_id, state, sent)
SELECT n, all_done(), 0, 1, n, 1, 500, 1, 500, 'done', 500 FROM generate_series(41, 60) AS n;
-- Of the paused one, in the queue: 61–64. Of the resumed one, out of it: 65–68.
INSERT INTO batch (id, broadcast_id, shard, provider_id, rank, attempt, size, first_device_id, last_device_id, state)
SELECT n, CASE WHEN n > 64 THEN resumed() ELSE paused() END, 0, 1, n, 1, 500, 1, 500,
       CASE WHEN n > 64 THEN 'held' ELSE 'ready' END::batch_state
FROM generate_series(61, 68) AS n;

-- With a rate of its own, out of the queue: ranges 71–74, and a retry 75 that is due.
INSERT INTO broadcast (id, client_id, idempotency_key, request_hash, title, body, data, priority, audience, state,
                       created_at, expires_at, max_rate_per_second)
VALUES (capped(), 'test', 'capped', '', '', '', '{}', 'normal', 'everyone', 'delivering', '2025-02-01', '2100-01-01', 1000);
INSERT INTO broadcast_pace (broadcast_id) VALUES (capped());
INSERT INTO delivery (broadcast_id, shard, provider_id, device_id, attempts)
SELECT capped(), 0, 1, n, CASE WHEN n > 2000 THEN 1 ELSE 0 END FROM generate_series(1, 2100) AS n;
INSERT INTO batch (id, broadcast_id, shard, provider_id, rank, attempt, size, first_device_id, last_device_id, device_ids, state,
                   next_attempt_at)
SELECT n, capped(), 0, 1, n, 1, 500, 500 * (n - 70) - 499, 500 * (n - 70), NULL, 'held'::batch_state, NULL::timestamptz
FROM generate_series(71, 74) AS n
UNION ALL
SELECT 75, capped(), 0, 1, 75, 2, 100, NULL, NULL, ids(2001, 2100), 'held', '2025-02-02';

-- What was given up: by the final broadcast, a fifth taken up by another, which has not come to call them; and by the ended
-- one.
INSERT INTO dead_letter (broadcast_id, shard, provider_id, device_id, attempts, reason, code, detail, replayed_by)
SELECT final(), 0, 1, n, 1, 'rejected'::dead_reason, '400', '', CASE WHEN n % 5 = 0 THEN ended() END FROM generate_series(1, 5000) AS n
UNION ALL
SELECT ended(), 0, 1, n, 1, 'rejected', '400', '', CASE WHEN n % 5 = 0 THEN at_work() END FROM generate_series(1, 500) AS n;
-- Attempts that failed before the retries that are due or ours, and what happened to some devices.
INSERT INTO attempt_failure (shard, broadcast_id, provider_id, device_id, attempt, slot, due_at, charged, code, detail)
SELECT 0, at_work(), 1, n, 1, 1, now(), true, '503', '' FROM generate_series(10001, 10800) AS n;
INSERT INTO device_event (shard, device_id, kind) SELECT 0, n, 'consent_withdrawn' FROM generate_series(1, 14000) AS n;

-- It went out live first, and all have acknowledged it while 81 and 82 waited; of the one at work a few have yet to.
INSERT INTO broadcast (id, client_id, idempotency_key, request_hash, title, body, data, priority, audience, state,
                       created_at, expires_at, routing, ack_timeout)
VALUES (live(), 'test', 'live', '', '', '', '{}', 'normal', 'everyone', 'delivering', '2025-02-01', '2100-01-01', 'live_then_push', '1 hour');
INSERT INTO batch (id, broadcast_id, shard, provider_id, rank, attempt, size, device_ids, state, next_attempt_at)
SELECT n, live(), 0, 1, n, 2, 100, ids(1, 100), 'waiting', '2099-12-31' FROM generate_series(81, 82) AS n;
INSERT INTO inbox_user (id, user_id, last_seq) OVERRIDING SYSTEM VALUE SELECT n, 'user-' || n, 2 FROM generate_series(1, 12000) AS n
ON CONFLICT DO NOTHING;
INSERT INTO inbox (user_no, seq, broadcast_id, acked_at)
SELECT n, 1, live(), now() FROM generate_series(1, 100) AS n
UNION ALL
SELECT n, 2, at_work(), NULL FROM generate_series(5001, 6000) AS n;
INSERT INTO broadcast_live VALUES (live(), 100, 100), (at_work(), 1000, 0);
INSERT INTO broadcast_live (broadcast_id, events) VALUES (fanning_out(), 100);

-- Inboxes: of a hundred users with 20 events each, and a full one, of which few were not read, and none not acknowledged. The broadcasts
-- need not be there.
INSERT INTO inbox_user (id, user_id, last_seq) OVERRIDING SYSTEM VALUE
SELECT 5000000 + n, 'inboxed-' || n, 20 FROM generate_series(1, 100) AS n
UNION ALL
SELECT full_inbox(), 'full', 1003000;
INSERT INTO inbox (user_no, seq, broadcast_id) SELECT 5000000 + n, m, m FROM generate_series(1, 100) AS n, generate_series(1, 20) AS m;
INSERT INTO inbox (user_no, seq, broadcast_id, acked_at, read_at)
SELECT full_inbox(), 1000000 + n, 7000000 + n, now(), CASE WHEN n > 100 THEN now() END FROM generate_series(1, 3000) AS n;
