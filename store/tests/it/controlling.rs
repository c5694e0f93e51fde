//! Pause and resume: at once for what is not leased, and nothing is lost or forgotten on the way.

use bongsu_store::{
    Audience, Broadcast, BroadcastId, BroadcastState, Controlled, FanOut, Flush, Store, Verdict,
};

use crate::harness::sql;
use crate::stage::*;

async fn pause(store: &Store, id: BroadcastId) -> Broadcast {
    match store.pause_broadcast(id).await.unwrap() {
        Controlled::Done(broadcast) => *broadcast,
        other => panic!("{other:?}"),
    }
}

async fn resume(store: &Store, id: BroadcastId) -> Broadcast {
    match store.resume_broadcast(id).await.unwrap() {
        Controlled::Done(broadcast) => *broadcast,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_paused_broadcast_is_not_claimed_until_it_is_resumed_and_others_are() {
    let (store, provider) = stage(1_000).await;
    let id = fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    for _ in 0..2 {
        let paused = pause(&store, id).await;
        assert!(paused.paused && paused.state == BroadcastState::Delivering, "asking twice is harmless");
    }
    assert!(sender.claim().await.is_empty(), "at once, before any sweep");
    sweep_all(&store).await;
    assert_eq!(sql(&store, "SELECT count(*) FROM batch WHERE state = 'held'").await, 2);
    let other = fanned_out(&store, "other").await;
    let claimed = sender.claim().await;
    assert!(claimed.iter().all(|b| b.broadcast == other));
    sender.settle_all(&claimed, |_| Verdict::Sent).await;
    assert!(store.status(id).await.unwrap().unwrap().paused);
    for _ in 0..2 {
        let Controlled::Done(resumed) = store.resume_broadcast(id).await.unwrap() else {
            panic!("resumable")
        };
        assert!(!resumed.paused);
    }
    sender.settle_all(&sender.claim().await, |_| Verdict::Sent).await;
    sweep_all(&store).await;
    assert_eq!((state(&store, id).await, counts(&store, id).await.sent), (BroadcastState::Completed, 1_000));
}

#[tokio::test]
async fn a_retry_keeps_its_time_over_a_pause_and_fresh_work_does_not_overtake_what_came_meanwhile() {
    let (store, provider) = stage(600).await;
    let id = fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim_up_to(1).await, |_| retry(HOUR)).await;
    let due = "SELECT (extract(epoch FROM next_attempt_at) * 1000)::bigint FROM batch WHERE attempt = 2";
    let before = sql(&store, due).await;
    pause(&store, id).await;
    sweep_all(&store).await;
    assert_eq!(sql(&store, "SELECT count(*) FROM batch WHERE state = 'held'").await, 2);
    store.control_lane(sender.id).heartbeat(0, &[(provider, 1_000_000)]).await.unwrap();
    resume(&store, id).await;
    assert_eq!(sql(&store, due).await, before);
    assert_eq!(sql(&store, "SELECT count(*) FROM batch WHERE state = 'waiting'").await, 1);
    assert_eq!(sql(&store, "SELECT rank FROM batch WHERE state = 'ready'").await, 1_000_001);
}

#[tokio::test]
async fn what_an_owner_gives_back_of_a_paused_broadcast_is_held_and_ends_with_its_expiry() {
    let (store, provider) = stage(500).await;
    let id = fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    let batches = sender.claim().await;
    let due = sender.read(&batches).await;
    pause(&store, id).await;
    // Calls that were in flight are recorded, the rest is not called: the owner closes with what it has.
    let outcomes = outcomes(&batches, &due[..100], |_| Verdict::Sent);
    assert_eq!(sender.flush(Flush { outcomes, closed: batches, unfit: vec![] }).await.recorded, 100);
    assert!(sender.claim().await.is_empty());
    sweep_all(&store).await;
    assert_eq!(sql(&store, "SELECT count(*) FROM batch WHERE state = 'held'").await, 1);
    // The lease of an owner that died runs out, and its batch is held like any other.
    resume(&store, id).await;
    assert_eq!(sender.claim().await.len(), 1);
    pause(&store, id).await;
    expire_leases(&store).await;
    sweep_all(&store).await;
    assert_eq!(sql(&store, "SELECT count(*) FROM batch WHERE state = 'held'").await, 1);
    sql(
        &store,
        "UPDATE broadcast SET created_at = created_at - interval '2 days', expires_at = now() RETURNING id",
    )
    .await;
    sweep_all(&store).await;
    let counts = counts(&store, id).await;
    assert_eq!((counts.sent, counts.expired, counts.pending()), (100, 400, 0));
    assert_eq!(state(&store, id).await, BroadcastState::Completed, "an expiry ends paused ones too");
}

#[tokio::test]
async fn a_broadcast_paused_before_its_fan_out_is_fanned_out_and_held_and_a_cancelled_one_is_no_longer_paused()
 {
    let (store, provider) = stage(1_000).await;
    let id = accept(&store, "k", Audience::Everyone).await.id;
    assert!(matches!(store.pause_broadcast(id).await.unwrap(), Controlled::Done(_)));
    assert!(matches!(store.fan_out_page().await.unwrap(), FanOut::Page { deliveries: 1_000, .. }));
    fan_out_all(&store).await;
    assert!(Sender::new(&store, provider).claim().await.is_empty());
    sweep_all(&store).await;
    let Controlled::Done(cancelled) = store.cancel_broadcast(id).await.unwrap() else {
        panic!("cancellable")
    };
    assert!(!cancelled.paused);
    sweep_all(&store).await;
    assert_eq!(
        (state(&store, id).await, counts(&store, id).await.cancelled),
        (BroadcastState::Cancelled, 1_000)
    );
    for outcome in [store.pause_broadcast(id).await.unwrap(), store.resume_broadcast(id).await.unwrap()] {
        assert!(matches!(outcome, Controlled::TooLate(_)));
    }
    assert!(matches!(
        store.pause_broadcast(bongsu_store::BroadcastId(1)).await.unwrap(),
        Controlled::NotFound
    ));
}

#[tokio::test]
async fn owners_learn_of_a_pause_and_of_its_end() {
    let (store, provider) = stage(5).await;
    let id = fanned_out(&store, "k").await;
    let mut lane = store.control_lane(Sender::new(&store, provider).id);
    assert!(lane.flags(&[id]).await.unwrap().is_empty());
    pause(&store, id).await;
    let flags = lane.flags(&[id]).await.unwrap();
    assert!(flags[0].paused && !flags[0].cancelled);
    resume(&store, id).await;
    assert!(lane.flags(&[id]).await.unwrap().is_empty());
    let _ = store.cancel_broadcast(id).await.unwrap();
    assert!(lane.flags(&[id]).await.unwrap()[0].cancelled);
}
