//! Outcomes are written in place (HOT): a delivery has its one update on its own page, whoever else looks.

use std::time::Duration;

use bongsu_store::{DeviceId, ProviderId, Store, Verdict};

use crate::harness::{self, sql};
use crate::stage::*;

/// Settles all deliveries as a sender does, 1,000 at a time and with some retries. Returns outcomes that
/// counted, updates of deliveries, and how many of these were made in place.
async fn settle_as_a_sender_does(store: &Store, provider: ProviderId) -> (i64, i64, i64) {
    let sender = Sender::new(store, provider);
    let mut settled = 0;
    loop {
        let batches = sender.claim_up_to(1_000).await;
        if batches.is_empty() {
            break;
        }
        let first = batches.iter().all(|batch| batch.attempt == 1);
        let verdict =
            |d: DeviceId| if first && d.0 % 33 == 0 { retry(Duration::ZERO) } else { Verdict::Sent };
        settled += i64::try_from(sender.settle(&batches, verdict).await.recorded).unwrap();
    }
    // Counts arrive when the connection that updated is gone.
    let updates = "SELECT sum(n_tup_upd)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'delivery_2%'";
    harness::until(async || sql(store, updates).await >= settled).await;
    let in_place =
        "SELECT sum(n_tup_hot_upd)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'delivery_2%'";
    (settled, sql(store, updates).await, sql(store, in_place).await)
}

#[tokio::test]
async fn outcomes_are_recorded_in_place() {
    let (store, provider) = stage(5_000).await;
    fanned_out(&store, "k").await;
    let (settled, updates, in_place) = settle_as_a_sender_does(&store, provider).await;
    assert_eq!(updates, settled);
    assert!(in_place * 100 >= updates * 99, "{in_place} of {updates}");
}

#[tokio::test]
async fn outcomes_are_recorded_in_place_while_an_old_snapshot_is_held() {
    let (store, provider) = stage(5_000).await;
    fanned_out(&store, "k").await;
    let mut old = store.test_pool().begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    sqlx::query("SET LOCAL idle_in_transaction_session_timeout = 0").execute(&mut *old).await.unwrap();
    let pending = "SELECT count(*) FROM delivery WHERE state = 'pending'";
    assert_eq!(sqlx::query_scalar::<_, i64>(pending).fetch_one(&mut *old).await.unwrap(), 5_000);
    let (settled, updates, in_place) = settle_as_a_sender_does(&store, provider).await;
    assert_eq!(sqlx::query_scalar::<_, i64>(pending).fetch_one(&mut *old).await.unwrap(), 5_000, "it is old");
    assert_eq!(sql(&store, pending).await, 0);
    assert_eq!(updates, settled);
    assert!(in_place * 100 >= updates * 99, "{in_place} of {updates}");
}
