-- What each statement finds to do, the same in every database. Ids are fixed, so that the parameters can name them.
INSERT INTO provider (name, kind) VALUES ('push', 'webhook'), ('other', 'webhook');
INSERT INTO sender (id, lock_key, heartbeat_at) VALUES (me(), 1, now()), (somebody(), 2, now() - interval '1 minute');
INSERT INTO device (id, shard, provider_id, user_id, token)
SELECT n, 0, 1, 'user-' || n, 'token-' || n FROM generate_series(1, 10800) AS n;

-- At work, ended, all done but not yet completed, and final.
INSERT INTO broadcast (id, client_id, idempotency_key, request_hash, title, body, data, priority, audience, state, created_at,
                       expires_at, settled_at)
SELECT id, 'test', 'work-' || id, '', '', '', '{}', 'normal', 'everyone', state, '2025-02-01', '2100-01-01',
       CASE state WHEN 'completed' THEN now() END
FROM (VALUES (at_work(), 'delivering'::broadcast_state), (ended(), 'cancelling'), (all_done(), 'delivering'),
             (final(), 'completed')) AS b(id, state);
INSERT INTO broadcast_tally VALUES (final(), 1, 500, 500, 0, 0, 0, 0, 0, 0, 0);

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
