//! Sweeps find every open broadcast, however old, however many, and without reading past all that have ended.

use std::collections::BTreeSet;
use std::time::Duration;

use bongsu_store::{BroadcastId, Store, SweepLane};

use crate::harness::{self, sql};
use crate::stage::stage;

/// So old that no look for what is new finds it.
const OLD: &str = "INSERT INTO broadcast (id, client_id, idempotency_key, request_hash, title, body, data, priority, audience, state,
                                          created_at, scheduled_at, expires_at)
                   SELECT broadcast_id_at(now() - interval '1 day'), 'test', 'old', '', '', '', '{}', 'normal', 'everyone', 'scheduled',
                          now() - interval '1 day', now() + interval '1 hour', now() + interval '1 day'
                   RETURNING id";
const OLD_STARTS: &str = "UPDATE broadcast SET state = 'delivering', scheduled_at = now() WHERE idempotency_key = 'old' RETURNING id";

/// Broadcasts with nothing left to do, as a process leaves them that dies before it completes them.
async fn leave(store: &Store, count: i32, key: &str) -> BTreeSet<BroadcastId> {
    let ids: Vec<i64> = sqlx::query_scalar(
        "INSERT INTO broadcast (client_id, idempotency_key, request_hash, title, body, data, priority, audience, state, expires_at)
         SELECT 'test', $2 || n, '', '', '', '{}', 'normal', 'everyone', 'delivering', now() + interval '1 day'
         FROM generate_series(1, $1) AS n
         RETURNING id",
    )
    .bind(count)
    .bind(key)
    .fetch_all(store.test_pool())
    .await
    .unwrap();
    ids.into_iter().map(BroadcastId).collect()
}

/// What a round of steps completes, and the number of steps.
async fn round(lane: &mut SweepLane) -> (BTreeSet<BroadcastId>, usize) {
    let (mut completed, mut steps) = (BTreeSet::new(), 0);
    loop {
        let swept = lane.sweep().await.unwrap();
        completed.extend(swept.completed);
        steps += 1;
        if swept.round_over {
            return (completed, steps);
        }
    }
}

/// A lane that has looked at an old broadcast, which is not to start yet.
async fn lane_and_old() -> (Store, SweepLane, BroadcastId) {
    let store = harness::store().await;
    let old = BroadcastId(sql(&store, OLD).await);
    let mut lane = store.sweep_lane();
    assert_eq!(round(&mut lane).await, (BTreeSet::new(), 1));
    (store, lane, old)
}

#[tokio::test]
async fn a_lane_finds_what_is_new_and_does_not_forget_what_is_old() {
    let (store, mut lane, old) = lane_and_old().await;
    let new = leave(&store, 1, "new").await;
    assert_eq!(round(&mut lane).await.0, new);
    sql(&store, OLD_STARTS).await;
    assert_eq!(round(&mut lane).await.0, BTreeSet::from([old]));
    assert_eq!(round(&mut lane).await, (BTreeSet::new(), 1));
}

#[tokio::test]
async fn however_many_are_open_each_step_looks_at_some_and_a_round_at_all() {
    let store = harness::store().await;
    let left = leave(&store, 2_500, "left").await;
    let mut lane = store.sweep_lane();
    assert_eq!(round(&mut lane).await, (left, 3));
    let late = leave(&store, 10, "late").await;
    assert_eq!(round(&mut lane).await, (late, 1));
}

#[tokio::test]
async fn a_step_that_fails_forgets_nothing() {
    let (store, mut lane, old) = lane_and_old().await;
    let away = "ALTER TABLE batch RENAME TO away";
    sqlx::query(away).execute(store.test_pool()).await.unwrap();
    assert!(lane.sweep().await.is_err());
    let back = "ALTER TABLE away RENAME TO batch";
    sqlx::query(back).execute(store.test_pool()).await.unwrap();
    sql(&store, OLD_STARTS).await;
    let (mut completed, _) = round(&mut lane).await;
    // The failed step was part of a round.
    completed.extend(round(&mut lane).await.0);
    assert_eq!(completed, BTreeSet::from([old]));
}

#[tokio::test]
async fn a_cancelled_broadcast_of_many_batches_does_not_wait_for_a_round_through_all_others() {
    let (store, _) = stage(1).await;
    let cancelled = "WITH br AS (INSERT INTO broadcast (client_id, idempotency_key, request_hash, title, body, data, priority, audience,
                                                        state, expires_at)
                                 VALUES ('test', 'cancelled', '', '', '', '{}', 'normal', 'everyone', 'cancelling', now() + interval '1 day')
                                 RETURNING id),
                          d AS (INSERT INTO delivery (broadcast_id, shard, provider_id, device_id)
                                SELECT br.id, 0, 1, n FROM br CROSS JOIN generate_series(1, 45) AS n
                                RETURNING broadcast_id, device_id AS n)
                     INSERT INTO batch (broadcast_id, shard, provider_id, rank, attempt, size, first_device_id, last_device_id, state)
                     SELECT broadcast_id, 0, 1, 0, 1, 1, n, n, 'ready' FROM d
                     RETURNING broadcast_id";
    let cancelled = BroadcastId(sql(&store, cancelled).await);
    leave(&store, 1_500, "other").await;
    let at_work =
        "UPDATE broadcast SET state = 'fanning_out' WHERE idempotency_key LIKE 'other%' RETURNING id";
    sql(&store, at_work).await;
    let (mut lane, mut steps, mut completed) = (store.sweep_lane(), vec![], vec![]);
    let (took, every) = (Duration::from_millis(10), Duration::from_secs(1));
    loop {
        let swept = lane.sweep().await.unwrap();
        steps.push((swept.settled, swept.pause(took, every).as_millis()));
        completed.extend(swept.completed);
        if swept.round_over {
            break;
        }
    }
    assert_eq!(steps, [(20, 0), (20, 0), (5, 40), (0, 1_000)]);
    assert_eq!(completed, [cancelled]);
}
