//! What is in inboxes leaves once it is old enough, and what senders that are gone left behind.

use bongsu_store::{BroadcastId, SenderId, Step, Store, UserNo};

use crate::harness::{self, sql};
use crate::stage::*;

/// Rows of one inbox: more than one step deletes.
const ROWS: i64 = 2_500;

async fn execute(store: &Store, statement: &'static str, id: BroadcastId) {
    sqlx::query(statement).bind(id.0).execute(store.test_pool()).await.unwrap();
}

async fn kept(store: &Store) -> Vec<BroadcastId> {
    let ids = "SELECT DISTINCT broadcast_id FROM inbox ORDER BY 1";
    let ids: Vec<i64> = sqlx::query_scalar(ids).fetch_all(store.test_pool()).await.unwrap();
    ids.into_iter().map(BroadcastId).collect()
}

/// Deletes until nothing is left to do: how many rows, in how many steps.
async fn purge(store: &Store, days: u32, history_days: u32) -> (u64, u32) {
    let mut turn = store.retention_turn().await.unwrap().expect("nobody else has the turn");
    let (mut rows, mut steps) = (0, 0);
    loop {
        let (some, more) = turn.purge_inbox(days, history_days).await.unwrap();
        (rows, steps) = (rows + some, steps + 1);
        if !more {
            turn.end().await.unwrap();
            return (rows, steps);
        }
    }
}

#[tokio::test]
async fn what_is_in_inboxes_goes_by_the_start_of_its_broadcast_once_that_is_final_and_the_broadcast_after_it()
{
    let (store, _) = stage(1).await;
    store.add_history(10, 5).await.unwrap();
    let ids: Vec<i64> = sqlx::query_scalar("SELECT id FROM broadcast ORDER BY id")
        .fetch_all(store.test_pool())
        .await
        .unwrap();
    let [started_late, open, old, _, young] = ids[..] else { panic!("five broadcasts") };
    for (user, id) in [started_late, open, old, young].into_iter().enumerate() {
        sqlx::query("INSERT INTO inbox (user_no, seq, broadcast_id) SELECT $1 * 1000000 + n, 1, $2 FROM generate_series(1, $3) AS n")
            .bind(user as i64)
            .bind(id)
            .bind(ROWS)
            .execute(store.test_pool())
            .await
            .unwrap();
    }
    let [started_late, open, old, young] = [started_late, open, old, young].map(BroadcastId);
    execute(
        &store,
        "UPDATE broadcast SET scheduled_at = now() - interval '1 day', expires_at = now() WHERE id = $1",
        started_late,
    )
    .await;
    execute(&store, "UPDATE broadcast SET state = 'delivering', settled_at = NULL WHERE id = $1", open).await;

    assert_eq!(purge(&store, 0, 0).await, (0, 1), "for ever");
    assert_eq!(purge(&store, 2, 90).await, (ROWS as u64, 2));
    assert_eq!(kept(&store).await, [started_late, open, young]);
    assert_eq!(purge(&store, 2, 90).await, (0, 1));

    // Once their days have no deliveries, what is in no inbox goes, and nothing else.
    execute(&store, "UPDATE broadcast SET scheduled_at = NULL WHERE id = $1", started_late).await;
    execute(&store, "UPDATE broadcast SET state = 'completed', settled_at = now() WHERE id = $1", open).await;
    assert_eq!(purge_broadcasts(&store).await, [started_late, open, young]);
    assert!(store.broadcast(old).await.unwrap().is_none());
    assert_eq!(purge(&store, 30, 2).await.0, 2 * ROWS as u64, "no longer than broadcasts");
    assert_eq!(purge_broadcasts(&store).await, [young]);
}

/// Drops days and deletes broadcasts that are older than two days; which are left of those in inboxes.
async fn purge_broadcasts(store: &Store) -> Vec<BroadcastId> {
    let mut turn = store.retention_turn().await.unwrap().expect("nobody else has the turn");
    while !matches!(turn.step(2).await.unwrap(), Step::Done) {}
    while turn.purge(2, 2).await.unwrap().more {}
    turn.end().await.unwrap();
    let mut left = vec![];
    for id in kept(store).await {
        left.extend(store.broadcast(id).await.unwrap().map(|broadcast| broadcast.id));
    }
    left
}

#[tokio::test]
async fn a_sender_that_is_forgotten_leaves_no_connection_behind() {
    let store = harness::store().await;
    let [gone, alive] = [(); 2].map(|()| SenderId::random());
    for (sender, key, silent_s) in [(gone, 1_i64, 4_000), (alive, 2, 0)] {
        sqlx::query(
            "INSERT INTO sender (id, lock_key, heartbeat_at) VALUES ($1, $2, now() - $3 * interval '1 second')",
        )
        .bind(sender.0)
        .bind(key)
        .bind(silent_s)
        .execute(store.test_pool())
        .await
        .unwrap();
        store.announce_presence(sender, &[UserNo(1), UserNo(2)]).await.unwrap();
    }
    store.sweep_lane().forget_senders().await.unwrap();
    let theirs = "SELECT count(*) FROM live_presence";
    assert_eq!(sql(&store, theirs).await, 2);
    assert_eq!(store.present_users(&[UserNo(1), UserNo(2), UserNo(3)]).await.unwrap().len(), 2);
}
