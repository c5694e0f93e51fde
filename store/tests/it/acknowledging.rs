//! Acknowledgements, and the pushes that wait for them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bongsu_store::{
    Acceptance, Audience, BroadcastId, BroadcastState, DueEvent, Flush, LiveCounts, Routing, SenderId, Store,
    UserNo, Verdict, testing,
};

use crate::harness::sql;
use crate::stage::*;

const ACK_TIMEOUT: Duration = Duration::from_secs(30);

/// A broadcast to everyone that goes out so, with its deliveries and events.
async fn live(store: &Store, key: &str, routing: Routing) -> (BroadcastId, BTreeMap<String, UserNo>) {
    let mut new = new_broadcast(key, Audience::Everyone);
    new.routing = routing;
    new.ack_timeout = (routing == Routing::LiveThenPush).then_some(ACK_TIMEOUT);
    let Acceptance::New(broadcast) = store.accept(&new).await.unwrap() else { panic!("it is not new") };
    fan_out_all(store).await;
    (broadcast.id, testing::make_events(store, broadcast.id).await)
}

async fn live_then_push(store: &Store) -> (BroadcastId, BTreeMap<String, UserNo>) {
    live(store, "k", Routing::LiveThenPush).await
}

async fn acknowledge_all(store: &Store, id: BroadcastId, users: &BTreeMap<String, UserNo>) -> usize {
    let acks: Vec<_> = users.values().map(|user| (*user, id)).collect();
    store.acknowledge(&acks).await.unwrap()
}

async fn live_counts(store: &Store, id: BroadcastId) -> LiveCounts {
    store.broadcast(id).await.unwrap().unwrap().live
}

/// Batches that wait for their time, in seconds from now.
async fn waiting(store: &Store) -> Vec<f64> {
    sqlx::query_scalar(
        "SELECT extract(epoch FROM next_attempt_at - now())::float8 FROM batch WHERE state = 'waiting' ORDER BY id",
    )
    .fetch_all(store.test_pool())
    .await
    .unwrap()
}

#[tokio::test]
async fn an_acknowledgement_counts_once_whoever_repeats_it_and_only_for_ones_own_event() {
    let (store, _) = stage(3).await;
    let (id, users) = live_then_push(&store).await;
    let (one, two) = (users["user-0"], users["user-1"]);
    assert_eq!(store.acknowledge(&[(one, id), (one, id)]).await.unwrap(), 1, "twice in one");
    assert_eq!(store.acknowledge(&[(one, id), (two, id)]).await.unwrap(), 1, "one of them again");
    let (nobody, nothing) = (UserNo(999_999), BroadcastId(5));
    assert_eq!(store.acknowledge(&[(nobody, id), (one, nothing)]).await.unwrap(), 0);
    assert_eq!(store.acknowledge(&[]).await.unwrap(), 0);
    assert_eq!(live_counts(&store, id).await, LiveCounts { events: 3, acknowledged: 2 });
    assert_eq!(sql(&store, "SELECT count(*) FROM inbox WHERE acked_at IS NOT NULL").await, 2);
}

#[tokio::test]
async fn the_same_acknowledgements_from_all_sides_at_once_are_counted_once_and_block_nobody() {
    const USERS: usize = 300;
    let (store, _) = stage(USERS).await;
    let (first, users) = live(&store, "first", Routing::LiveThenPush).await;
    let (second, _) = live(&store, "second", Routing::LiveAndPush).await;
    let mut acks: Vec<_> = users.values().flat_map(|user| [(*user, first), (*user, second)]).collect();
    let tasks: Vec<_> = (0..8)
        .map(|turn| {
            // Each in another order.
            acks.rotate_left(37);
            if turn % 2 == 1 {
                acks.reverse();
            }
            let (store, acks) = (store.clone(), acks.clone());
            tokio::spawn(async move { store.acknowledge(&acks).await.unwrap() })
        })
        .collect();
    let mut new = 0;
    for task in tasks {
        new += task.await.unwrap();
    }
    assert_eq!(new, 2 * USERS);
    for id in [first, second] {
        let users = i64::try_from(USERS).unwrap();
        assert_eq!(live_counts(&store, id).await, LiveCounts { events: users, acknowledged: users });
    }
}

#[tokio::test]
async fn a_sender_learns_of_each_delivery_what_its_user_has_seen_on_any_device_and_in_any_shard() {
    let (store, provider) = stage_on(3, 12).await;
    let mut second_device = registration(provider, 0);
    second_device.token = "token-0-too".into();
    store.import(&[second_device]).await.unwrap();
    let (id, users) = live_then_push(&store).await;
    assert_eq!(users.len(), 12);
    store.acknowledge(&[(users["user-0"], id), (users["user-7"], id)]).await.unwrap();
    sql(&store, "UPDATE inbox SET created_at = now() - interval '20 s' RETURNING 1::bigint").await;
    sql(&store, "WITH gone AS (DELETE FROM inbox i USING inbox_user u WHERE u.id = i.user_no AND u.user_id = 'user-5' RETURNING 1) SELECT count(*) FROM gone").await;
    let sender = Sender::new(&store, provider);
    let batches = sender.claim().await;
    let due = sender.read(&batches).await;
    assert_eq!(due.len(), 13);
    let asked: Vec<_> =
        due.iter().map(|d| (*batches.iter().find(|b| b.id == d.batch).unwrap(), d.device)).collect();
    let events = store.claim_lane(sender.id).events_of(&asked).await.unwrap();
    assert_eq!(events.iter().filter(|event| event.is_none()).count(), 1, "whose event is gone");
    let events: Vec<DueEvent> = events.into_iter().flatten().collect();
    let seen: Vec<_> = events.iter().filter(|event| event.acknowledged).map(|event| event.user).collect();
    assert_eq!(seen.len(), 3, "one of them on two devices");
    assert_eq!(BTreeSet::from_iter(seen), BTreeSet::from([users["user-0"], users["user-7"]]));
    for event in events {
        assert!((19..90).contains(&event.age.as_secs()), "{:?}", event.age);
    }
}

#[tokio::test]
async fn what_waits_for_an_acknowledgement_is_due_at_its_deadline_and_has_failed_nothing() {
    let (store, provider) = stage(700).await;
    let (id, _) = live_then_push(&store).await;
    let sender = Sender::new(&store, provider);
    let batches = sender.claim().await;
    sender.settle_all(&batches, |_| Verdict::AwaitAck { after: ACK_TIMEOUT }).await;
    let due = waiting(&store).await;
    assert_eq!(due.len(), 2, "as many batches as before");
    // Not later by any jitter, and not earlier; the test may have taken some of it.
    assert!(due.iter().all(|due| (15.0..30.1).contains(due)), "{due:?}");
    assert_eq!(sql(&store, "SELECT count(*) FROM attempt_failure").await, 0);
    assert!(sender.claim().await.is_empty(), "before the deadline");
    assert_eq!(store.broken_invariants().await.unwrap(), []);
    let waits = counts(&store, id).await;
    assert_eq!((waits.total, waits.pending(), waits.retrying), (700, 700, 700));

    sql(&store, "UPDATE batch SET next_attempt_at = now() WHERE state = 'waiting' RETURNING 1::bigint").await;
    let called = sender.claim().await;
    assert!(called.iter().all(|batch| (batch.attempt, batch.failures) == (2, 0)));
    sender.settle_all(&called, |_| Verdict::Sent).await;
    assert_eq!(store.complete_broadcasts(&[id]).await.unwrap(), [id]);
    assert_eq!(counts(&store, id).await.sent, 700);
}

#[tokio::test]
async fn what_was_seen_live_ends_skipped_and_says_so() {
    let (store, provider) = stage(5).await;
    let (id, users) = live_then_push(&store).await;
    assert_eq!(acknowledge_all(&store, id, &users).await, 5);
    let sender = Sender::new(&store, provider);
    let batches = sender.claim().await;
    sender.settle_all(&batches, |_| Verdict::SeenLive).await;
    assert_eq!(store.complete_broadcasts(&[id]).await.unwrap(), [id]);
    let ended = counts(&store, id).await;
    assert_eq!((ended.total, ended.skipped, ended.retried), (5, 5, 0));
    let told =
        "SELECT count(*) FROM delivery WHERE state = 'skipped' AND last_code = 'seen_live' AND attempts = 0";
    assert_eq!(sql(&store, told).await, 5);
    assert_eq!(store.broken_invariants().await.unwrap(), []);
}

#[tokio::test]
async fn what_waits_is_due_at_once_when_the_last_user_has_acknowledged_and_not_before() {
    let (store, provider) = stage_on(2, 600).await;
    let (id, users) = live_then_push(&store).await;
    let sender = Sender::new(&store, provider);
    let batches = sender.claim().await;
    sender.settle_all(&batches, |_| Verdict::AwaitAck { after: ACK_TIMEOUT }).await;
    let last = users["user-77"];
    let but_one: Vec<_> = users.values().filter(|user| **user != last).map(|user| (*user, id)).collect();
    assert_eq!(store.acknowledge(&but_one).await.unwrap(), 599);
    assert!(sender.claim().await.is_empty(), "one is missing");
    assert_eq!(store.acknowledge(&[(last, id)]).await.unwrap(), 1);
    let woken = sender.claim().await;
    assert_eq!(woken.iter().map(|batch| batch.size).sum::<i32>(), 600);
    sender.settle_all(&woken, |_| Verdict::SeenLive).await;
    assert_eq!(store.complete_broadcasts(&[id]).await.unwrap(), [id]);
    assert_eq!(counts(&store, id).await.skipped, 600);
}

#[tokio::test]
async fn the_last_acknowledgement_is_not_missed_where_it_comes_before_what_waits_is_recorded() {
    let (store, provider) = stage(1).await;
    let (id, users) = live_then_push(&store).await;
    let sender = Sender::new(&store, provider);
    let batches = sender.claim().await;
    let outcomes =
        outcomes(&batches, &sender.read(&batches).await, |_| Verdict::AwaitAck { after: ACK_TIMEOUT });
    assert_eq!(acknowledge_all(&store, id, &users).await, 1);
    let flushed = sender.flush(Flush { outcomes, closed: batches, unfit: vec![] }).await;
    assert_eq!((flushed.recorded, flushed.touched.into_iter().collect::<Vec<_>>()), (1, vec![id]));
    assert!(sender.claim().await.is_empty(), "nobody has asked");
    store.wake_acknowledged(&[id]).await.unwrap();
    assert_eq!(sender.claim().await.len(), 1);
}

#[tokio::test]
async fn acknowledgements_hurry_no_retry_of_a_push_that_waits_for_none() {
    let (store, provider) = stage(1).await;
    let (id, users) = live(&store, "k", Routing::LiveAndPush).await;
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim().await, |_| retry(HOUR)).await;
    assert_eq!(acknowledge_all(&store, id, &users).await, 1);
    store.wake_acknowledged(&[id]).await.unwrap();
    assert!(waiting(&store).await[0] > 3_000.0, "the provider may have asked for it");
}

#[tokio::test]
async fn a_pause_keeps_the_deadline_of_what_waits_and_an_acknowledgement_meanwhile_brings_it_forward() {
    let (store, provider) = stage(1).await;
    let (id, users) = live_then_push(&store).await;
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim().await, |_| Verdict::AwaitAck { after: ACK_TIMEOUT }).await;
    let deadline =
        sql(&store, "SELECT extract(epoch FROM next_attempt_at)::bigint FROM batch WHERE attempt = 2").await;
    let _ = store.pause_broadcast(id).await.unwrap();
    sweep_all(&store).await;
    assert!(waiting(&store).await.is_empty(), "it is held");
    let _ = store.resume_broadcast(id).await.unwrap();
    sweep_all(&store).await;
    let after = "SELECT extract(epoch FROM next_attempt_at)::bigint FROM batch WHERE state = 'waiting'";
    assert_eq!(sql(&store, after).await, deadline);

    let _ = store.pause_broadcast(id).await.unwrap();
    sweep_all(&store).await;
    assert_eq!(acknowledge_all(&store, id, &users).await, 1);
    assert!(sender.claim().await.is_empty(), "it is paused");
    let _ = store.resume_broadcast(id).await.unwrap();
    sweep_all(&store).await;
    assert_eq!(sender.claim().await.len(), 1, "and due");
}

#[tokio::test]
async fn what_waits_for_an_acknowledgement_ends_with_its_broadcast() {
    let (store, provider) = stage(2).await;
    let (cancelled, _) = live(&store, "cancelled", Routing::LiveThenPush).await;
    let (expired, _) = live(&store, "expired", Routing::LiveThenPush).await;
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim().await, |_| Verdict::AwaitAck { after: ACK_TIMEOUT }).await;
    let _ = store.cancel_broadcast(cancelled).await.unwrap();
    let expire =
        "UPDATE broadcast SET expires_at = now() WHERE idempotency_key = 'expired' RETURNING 1::bigint";
    sql(&store, expire).await;
    sweep_all(&store).await;
    assert_eq!(state(&store, cancelled).await, BroadcastState::Cancelled);
    assert_eq!(state(&store, expired).await, BroadcastState::Completed);
    assert_eq!(counts(&store, cancelled).await.cancelled, 2);
    assert_eq!(counts(&store, expired).await.expired, 2);
    assert_eq!(store.broken_invariants().await.unwrap(), []);
}

#[tokio::test]
async fn a_sender_that_was_silent_for_three_seconds_has_no_connections() {
    let (store, _) = stage(1).await;
    let (_, users) = live_then_push(&store).await;
    let (user, sender) = (users["user-0"], SenderId::random());
    store.announce_presence(sender, &[user]).await.unwrap();
    assert!(store.present_users(&[user]).await.unwrap().is_empty(), "nobody has heard of it");
    store.control_lane(sender).heartbeat(0, &[]).await.unwrap();
    assert_eq!(Vec::from_iter(store.present_users(&[user]).await.unwrap()), [user]);
    sql(&store, "UPDATE sender SET heartbeat_at = now() - interval '3.1 s' RETURNING 1::bigint").await;
    assert!(store.present_users(&[user]).await.unwrap().is_empty());
}
