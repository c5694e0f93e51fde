//! Purging dead letters: those that were meant and no others, and the books stay true.

use bongsu_store::{
    BroadcastId, DeadLetterFilter, DeadLetterMatch, DeadReason, PURGE_STEP, ProviderId, PurgeFilter, Store,
    Verdict,
};

use crate::harness::sql;
use crate::stage::*;

/// A broadcast of which every other delivery used up its attempts, and the rest was rejected.
async fn failed(store: &Store, provider: ProviderId, key: &str) -> BroadcastId {
    let id = fanned_out(store, key).await;
    let sender = Sender::new(store, provider);
    let rejected =
        || Verdict::Dead { reason: DeadReason::Rejected, code: "400".into(), detail: String::new() };
    let verdict = |d: bongsu_store::DeviceId| if d.0 % 2 == 0 { exhausted() } else { rejected() };
    sender.settle_all(&sender.claim().await, verdict).await;
    sweep_all(store).await;
    id
}

/// Goes on until all were looked at; returns how many, and in how many steps.
async fn purge(store: &Store, filter: &PurgeFilter) -> (i64, u32) {
    let (mut letters, mut steps, mut place) = (0, 0, None);
    loop {
        let step = store.purge_dead_letters(filter, place).await.unwrap();
        (letters, steps) = (letters + step.letters, steps + 1);
        place = step.next;
        if place.is_none() {
            return (letters, steps);
        }
    }
}

async fn listed(store: &Store, broadcast: BroadcastId) -> usize {
    let filter = DeadLetterFilter { broadcast: Some(broadcast), limit: 10_000, ..Default::default() };
    store.list_dead_letters(&filter).await.unwrap().len()
}

#[tokio::test]
async fn what_matches_is_purged_in_small_steps_and_counts_and_deliveries_stay_true() {
    for shards in [1, 4] {
        let devices = 2 * PURGE_STEP + 500;
        let (store, provider) = stage_on(shards, usize::try_from(devices).unwrap()).await;
        let (id, other) = (failed(&store, provider, "k").await, failed(&store, provider, "other").await);
        let before = counts(&store, id).await;
        let letters = DeadLetterMatch { reasons: vec![DeadReason::Rejected], ..Default::default() };
        let filter = PurgeFilter { broadcast: Some(id), letters, count_only: false };
        let counted = PurgeFilter { count_only: true, ..filter.clone() };
        assert_eq!(purge(&store, &counted).await, (devices / 2, 3));
        assert_eq!(listed(&store, id).await as i64, devices, "it was only counted");
        assert_eq!(purge(&store, &filter).await, (devices / 2, 3));
        assert_eq!(purge(&store, &filter).await.0, 0, "again it does nothing");
        assert_eq!((listed(&store, id).await, listed(&store, other).await), (1_250, 2_500));
        assert_eq!(counts(&store, id).await, before);
        let dead = "SELECT count(*) FROM delivery WHERE state = 'dead' AND dead_reason = 'rejected'";
        assert_eq!(sql(&store, dead).await, devices, "of both broadcasts");
        assert_eq!(store.broken_invariants().await.unwrap(), [], "what was purged is accounted for");
    }
}

#[tokio::test]
async fn what_died_before_a_time_is_purged_of_all_broadcasts_and_nothing_younger() {
    let (store, provider) = stage(20).await;
    let (old, young) = (failed(&store, provider, "old").await, failed(&store, provider, "young").await);
    // What dies after its broadcast was made, as it does.
    sql(
        &store,
        "UPDATE dead_letter SET created_at = now() + interval '1 hour'
         WHERE broadcast_id = (SELECT max(id) FROM broadcast) RETURNING device_id",
    )
    .await;
    let letters = DeadLetterMatch { to: Some(now() + time::Duration::minutes(30)), ..Default::default() };
    let filter = PurgeFilter { broadcast: None, letters, count_only: false };
    assert_eq!(purge(&store, &filter).await.0, 20);
    assert_eq!((listed(&store, old).await, listed(&store, young).await), (0, 20));
    let letters = DeadLetterMatch { to: Some(now() + time::Duration::days(1_000_000)), ..Default::default() };
    let filter = PurgeFilter { broadcast: None, letters, count_only: false };
    assert_eq!(purge(&store, &filter).await.0, 20, "a time to come means all");
}

#[tokio::test]
async fn purging_while_others_purge_the_same_counts_each_dead_letter_once() {
    let (store, provider) = stage(3_000).await;
    let id = failed(&store, provider, "k").await;
    let filter = PurgeFilter { broadcast: Some(id), letters: DeadLetterMatch::default(), count_only: false };
    let mut purging = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let (store, filter) = (store.clone(), filter.clone());
        purging.spawn(async move { purge(&store, &filter).await.0 });
    }
    assert_eq!(purging.join_all().await.into_iter().sum::<i64>(), 3_000);
    assert_eq!(sql(&store, "SELECT sum(letters)::bigint FROM dead_letter_purge").await, 3_000);
    assert_eq!(store.broken_invariants().await.unwrap(), []);
}
