//! A broadcast with a rate of its own: slots and the work for them go out together, once each, and nothing else of it does.

use std::time::Duration;

use bongsu_store::{
    Audience, BroadcastId, BroadcastState, CAPPED_AHEAD, CappedTaken, CappedWant, NewBroadcast, ProviderId,
    Store, Verdict,
};
use tokio::task::JoinSet;

use crate::harness::sql;
use crate::stage::*;

/// Accepts a broadcast to everyone that may call so often, and fans it out whole.
async fn capped(store: &Store, key: &str, per_second: u32) -> BroadcastId {
    let new =
        NewBroadcast { max_rate_per_second: Some(per_second), ..new_broadcast(key, Audience::Everyone) };
    let accepted = store.accept(&new).await.unwrap();
    let bongsu_store::Acceptance::New(broadcast) = accepted else { panic!("not new: {accepted:?}") };
    assert_eq!(broadcast.max_rate_per_second, Some(per_second));
    fan_out_all(store).await;
    broadcast.id
}

async fn take(sender: &Sender, id: BroadcastId, provider: ProviderId, slots: u32) -> CappedTaken {
    let mut lane = sender.store.claim_lane(sender.id);
    lane.list_capped().await.unwrap();
    let want = CappedWant { broadcast: id, slots, in_hand: 0 };
    lane.claim_capped(&[want], &[provider], LEASE).await.unwrap().remove(0)
}

fn deliveries(taken: &CappedTaken) -> i32 {
    taken.batches.iter().map(|batch| batch.size).sum()
}

/// From the first slot to the end of the last, by the database's clock, in seconds.
fn span(taken: &CappedTaken) -> (f64, f64) {
    let begins = taken.at + taken.begins_in.as_secs_f64();
    (begins, begins + taken.step.as_secs_f64() * f64::from(taken.slots))
}

#[tokio::test]
async fn nothing_of_it_can_be_claimed_without_slots_and_with_them_no_more_than_they_are() {
    let (store, provider) = stage(1_200).await;
    let id = capped(&store, "slow", 100).await;
    let sender = Sender::new(&store, provider);
    assert!(sender.claim().await.is_empty(), "it is not in the queue of all");
    let taken = take(&sender, id, provider, 48).await;
    assert_eq!((taken.slots, deliveries(&taken)), (48, 48));
    assert_eq!(sender.read(&taken.batches).await.len(), 48, "what was cut off is what can be called");
    assert!(store.broken_invariants().await.unwrap().is_empty());
    sender.settle_all(&taken.batches, |_| Verdict::Sent).await;
    assert_eq!((counts(&store, id).await.total, counts(&store, id).await.sent), (1_200, 48));
}

#[tokio::test]
async fn senders_that_take_at_once_get_slots_that_follow_each_other_and_different_work() {
    let (store, provider) = stage(2_000).await;
    let id = capped(&store, "slow", 200).await;
    let mut taking = JoinSet::new();
    for _ in 0..4 {
        let sender = Sender::new(&store, provider);
        let store = store.clone();
        taking.spawn(async move {
            let mut lane = store.claim_lane(sender.id);
            lane.list_capped().await.unwrap();
            let want = CappedWant { broadcast: id, slots: 30, in_hand: 0 };
            let mut all = vec![];
            for _ in 0..8 {
                all.extend(lane.claim_capped(&[want], &[provider], LEASE).await.unwrap());
            }
            all
        });
    }
    let all = taking.join_all().await.concat();
    let mut spans: Vec<_> = all.iter().filter(|taken| taken.slots > 0).map(span).collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(spans.len() > 1, "{all:?}");
    for pair in spans.windows(2) {
        assert!(pair[1].0 > pair[0].1 - 0.000_01, "two senders have the same slots: {pair:?}");
    }
    for taken in &all {
        assert_eq!(u32::try_from(deliveries(taken)).unwrap(), taken.slots);
        let ahead = span(taken).1 - taken.at;
        assert!(ahead <= CAPPED_AHEAD.as_secs_f64() + taken.step.as_secs_f64(), "{taken:?}");
    }
    assert!(
        store.broken_invariants().await.unwrap().is_empty(),
        "no delivery is in two batches, and none in no batch"
    );
}

#[tokio::test]
async fn who_has_work_without_slots_gets_slots_for_that_first_and_no_slot_is_given_where_nothing_is_to_do() {
    let (store, provider) = stage(5).await;
    let id = capped(&store, "slow", 100).await;
    let sender = Sender::new(&store, provider);
    let mut lane = store.claim_lane(sender.id);
    lane.list_capped().await.unwrap();
    let want = |slots, in_hand| CappedWant { broadcast: id, slots, in_hand };
    let first = lane.claim_capped(&[want(10, 7)], &[provider], LEASE).await.unwrap().remove(0);
    assert_eq!((first.slots, deliveries(&first)), (10, 3));
    let rest = lane.claim_capped(&[want(10, 0)], &[provider], LEASE).await.unwrap().remove(0);
    assert_eq!((rest.slots, deliveries(&rest)), (2, 2));
    let nothing = lane.claim_capped(&[want(10, 0)], &[provider], LEASE).await.unwrap().remove(0);
    assert_eq!(nothing.slots, 0);
    let none_open = lane.claim_capped(&[want(10, 0)], &[], LEASE).await.unwrap().remove(0);
    assert_eq!(none_open.slots, 0);
}

#[tokio::test]
async fn its_retries_leave_the_queue_of_all_too_and_come_when_they_are_due() {
    let (store, provider) = stage(20).await;
    let id = capped(&store, "slow", 1_000).await;
    let sender = Sender::new(&store, provider);
    let taken = take(&sender, id, provider, 8).await;
    sender.settle_all(&taken.batches, |_| retry(Duration::ZERO)).await;
    sweep_all(&store).await;
    assert!(sender.claim().await.is_empty());
    let next = take(&sender, id, provider, 8).await;
    let mut attempts: Vec<_> = next.batches.iter().map(|batch| (batch.attempt, batch.size)).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [(1, 4), (2, 4)], "half of it, the way retries and fresh work share a claim");
    assert_eq!(sender.read(&next.batches).await.len(), 8);
    assert!(store.broken_invariants().await.unwrap().is_empty());
    sender.settle_all(&next.batches, |_| Verdict::Sent).await;
    let rest = take(&sender, id, provider, 100).await;
    sender.settle_all(&rest.batches, |_| Verdict::Sent).await;
    let last = take(&sender, id, provider, 100).await;
    sender.settle_all(&last.batches, |_| Verdict::Sent).await;
    sweep_all(&store).await;
    assert_eq!(state(&store, id).await, BroadcastState::Completed);
    let counts = counts(&store, id).await;
    assert_eq!((counts.total, counts.sent, counts.retried), (20, 20, 8));
}

#[tokio::test]
async fn what_is_given_back_and_what_an_old_version_has_offered_is_taken_out_of_the_queue_again() {
    let (store, provider) = stage(600).await;
    let id = capped(&store, "slow", 100).await;
    let sender = Sender::new(&store, provider);
    take(&sender, id, provider, 10).await;
    store.claim_lane(sender.id).release_beside(&[]).await.unwrap();
    sql(&store, "UPDATE batch SET state = 'ready' WHERE state = 'held' RETURNING 1::bigint").await;
    sweep_all(&store).await;
    assert!(sender.claim().await.is_empty());
    assert_eq!(deliveries(&take(&sender, id, provider, 40).await), 40);
    assert!(store.broken_invariants().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_paused_one_gives_nothing_and_a_cancelled_one_ends() {
    let (store, provider) = stage(600).await;
    let id = capped(&store, "slow", 100).await;
    let sender = Sender::new(&store, provider);
    assert_eq!(take(&sender, id, provider, 10).await.slots, 10);
    let _ = store.pause_broadcast(id).await.unwrap();
    assert_eq!(store.claim_lane(sender.id).list_capped().await.unwrap(), []);
    assert_eq!(take(&sender, id, provider, 10).await.slots, 0);
    let _ = store.resume_broadcast(id).await.unwrap();
    sweep_all(&store).await;
    assert_eq!(take(&sender, id, provider, 10).await.slots, 10);
    let _ = store.cancel_broadcast(id).await.unwrap();
    expire_leases(&store).await;
    sweep_all(&store).await;
    assert_eq!(state(&store, id).await, BroadcastState::Cancelled, "leases that ran out are settled as well");
    assert_eq!(counts(&store, id).await.cancelled, 600);
}

#[tokio::test]
async fn a_parked_provider_with_nothing_else_to_call_is_probed_with_work_of_it() {
    let (store, provider) = stage(600).await;
    let id = capped(&store, "slow", 100).await;
    let sender = Sender::new(&store, provider);
    let mut lane = store.claim_lane(sender.id);
    let probe = lane.claim_probe(provider, LEASE, reclaim(), &[]).await.unwrap().expect("a batch");
    assert_eq!(probe.broadcast, id);
}
