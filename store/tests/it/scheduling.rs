//! Scheduled broadcasts: nothing before their time, once at it, and nothing is lost however late somebody comes to start them.

use std::time::Duration;

use bongsu_store::{
    Acceptance, Audience, Broadcast, BroadcastId, BroadcastState, Check, Controlled, DeviceId, Expiry,
    FanOut, NewBroadcast, PartitionState, Rescheduled, Step, Store, Verdict,
};
use time::OffsetDateTime;

use crate::harness::sql;
use crate::stage::*;

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// To everyone, in an hour.
fn later(key: &str) -> NewBroadcast {
    NewBroadcast { schedule: Some(now() + HOUR), ..new_broadcast(key, Audience::Everyone) }
}

async fn stored(store: &Store, new: &NewBroadcast) -> Broadcast {
    match store.accept(new).await.unwrap() {
        Acceptance::New(broadcast) => *broadcast,
        other => panic!("not new: {other:?}"),
    }
}

/// Moves the clock of what is stored: as if all had been 90 minutes earlier, and so the start half an hour ago.
async fn come_due(store: &Store) {
    let earlier = "UPDATE broadcast SET created_at = created_at - interval '90 minutes', expires_at = expires_at - interval '90 minutes',
        scheduled_at = scheduled_at - interval '90 minutes' WHERE state = 'scheduled' RETURNING id";
    sql(store, earlier).await;
}

async fn reschedule(store: &Store, id: BroadcastId, at: Option<OffsetDateTime>) -> Broadcast {
    match store.reschedule_broadcast(id, at).await.unwrap() {
        Rescheduled::Done(broadcast) => *broadcast,
        other => panic!("{other:?}"),
    }
}

fn near(one: OffsetDateTime, other: OffsetDateTime) -> bool {
    (one - other).abs() < Duration::from_secs(1)
}

#[tokio::test]
async fn a_scheduled_broadcast_does_nothing_before_its_time_and_is_then_for_whoever_is_registered_by_then() {
    let (store, provider) = stage(3).await;
    let scheduled = stored(&store, &NewBroadcast { expiry: Expiry::After(3 * HOUR), ..later("k") }).await;
    assert_eq!(scheduled.state, BroadcastState::Scheduled);
    let at = scheduled.scheduled_at.unwrap();
    assert_eq!(scheduled.expires_at - at, 3 * HOUR, "it counts from the start");
    assert_eq!(store.status(scheduled.id).await.unwrap().unwrap().scheduled_at, Some(at));
    assert!(store.start_due().await.unwrap().is_empty());
    assert_eq!(store.fan_out_page().await.unwrap(), FanOut::Idle);
    sweep_all(&store).await;
    assert_eq!(state(&store, scheduled.id).await, BroadcastState::Scheduled);
    store.import(&[registration(provider, 100)]).await.unwrap();

    come_due(&store).await;
    let started = store.start_due().await.unwrap();
    assert!(started.len() == 1 && started[0].id == scheduled.id && !started[0].expired, "{started:?}");
    assert!(started[0].late_seconds > 1_700.0, "{started:?}");
    assert!(store.start_due().await.unwrap().is_empty(), "once");
    fan_out_all(&store).await;
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim().await, |_| Verdict::Sent).await;
    sweep_all(&store).await;
    let ended = store.broadcast(scheduled.id).await.unwrap().unwrap();
    assert_eq!((ended.state, ended.counts.sent), (BroadcastState::Completed, 4));
    assert!(ended.scheduled_at.is_some(), "when it started can still be told");
}

#[tokio::test]
async fn a_short_list_that_is_scheduled_is_not_fanned_out_as_it_is_accepted() {
    let (store, provider) = stage(3).await;
    let first = DeviceId(sql(&store, "SELECT min(id) FROM device").await);
    for (key, audience) in
        [("u", Audience::users(vec!["user-1".into()])), ("d", Audience::devices(vec![first]))]
    {
        let new = NewBroadcast { audience, ..later(key) };
        assert_eq!(stored(&store, &new).await.state, BroadcastState::Scheduled);
    }
    assert_eq!(sql(&store, "SELECT count(*) FROM delivery").await, 0);
    store.import(&[registration(provider, 1)]).await.unwrap();
    come_due(&store).await;
    assert_eq!(store.start_due().await.unwrap().len(), 2);
    fan_out_all(&store).await;
    assert_eq!(sql(&store, "SELECT count(*) FROM delivery").await, 2);
    assert!(store.broken_invariants().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_start_that_is_past_is_at_once_and_the_same_request_again_is_the_same_broadcast() {
    let (store, _) = stage(3).await;
    for audience in [Audience::Everyone, Audience::users(vec!["user-1".into()])] {
        let key = format!("{audience:?}");
        let new = NewBroadcast { schedule: Some(now() - HOUR), ..new_broadcast(&key, audience) };
        let accepted = stored(&store, &new).await;
        assert_eq!((accepted.state, accepted.scheduled_at), (BroadcastState::Accepted, None));
        assert!(near(accepted.expires_at, now() + HOUR), "from now, not from then");
        assert!(matches!(store.accept(&new).await.unwrap(), Acceptance::Replayed(b) if b.id == accepted.id));
    }
}

#[tokio::test]
async fn start_and_expiry_are_checked_against_each_other_by_the_clock_of_the_database() {
    let (store, _) = stage(0).await;
    let (far, near_) = (now() + 31 * DAY, now() + 2 * HOUR);
    let refused = |new: NewBroadcast| {
        let store = store.clone();
        async move {
            let Check::Otherwise(check) = store.check(&new).await.unwrap() else {
                panic!("would be accepted")
            };
            (format!("{check:?}"), format!("{:?}", store.accept(&new).await.unwrap()))
        }
    };
    let (check, accept) = refused(NewBroadcast { schedule: Some(far), ..later("far") }).await;
    assert!(check.starts_with("TooFarAhead") && accept.starts_with("TooFarAhead"), "{check} {accept}");
    for expiry in [now() + HOUR, near_ + 8 * DAY] {
        let new = NewBroadcast { schedule: Some(near_), expiry: Expiry::At(expiry), ..later("expiry") };
        let (check, accept) = refused(new).await;
        assert!(check.contains("scheduled: true") && accept.contains("scheduled: true"), "{check} {accept}");
    }
    assert_eq!(sql(&store, "SELECT count(*) FROM broadcast").await, 0);
    let new = NewBroadcast { schedule: Some(now() + 29 * DAY), ..later("k") };
    let Check::WouldAccept { scheduled_at, expires_at, .. } = store.check(&new).await.unwrap() else {
        panic!("is refused")
    };
    let stored = stored(&store, &new).await;
    assert!(near(stored.scheduled_at.unwrap(), scheduled_at.unwrap()) && near(stored.expires_at, expires_at));
}

#[tokio::test]
async fn one_that_nobody_started_before_it_expired_ends_without_a_delivery() {
    let (store, _) = stage(3).await;
    let id = stored(&store, &NewBroadcast { expiry: Expiry::After(HOUR / 4), ..later("k") }).await.id;
    assert!(matches!(store.pause_broadcast(id).await.unwrap(), Controlled::Done(b) if b.paused));
    come_due(&store).await;
    let started = store.start_due().await.unwrap();
    assert!(started.len() == 1 && started[0].expired, "{started:?}");
    let ended = store.broadcast(id).await.unwrap().unwrap();
    assert_eq!((ended.state, ended.paused, ended.counts.total), (BroadcastState::Completed, false, 0));
    assert!(ended.settled_at.is_some());
    assert_eq!(store.fan_out_page().await.unwrap(), FanOut::Idle);
    assert!(store.broken_invariants().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_is_started_by_one_of_many_and_nobody_waits_for_whoever_holds_a_row() {
    let (store, _) = stage(0).await;
    for n in 0..40 {
        stored(&store, &later(&format!("k{n}"))).await;
    }
    come_due(&store).await;
    let all: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.start_due().await.unwrap() })
        })
        .collect();
    let mut started = vec![];
    for one in all {
        started.extend(one.await.unwrap().into_iter().map(|s| s.id));
    }
    // What one of them passed over, since another had it and gave up, is started by the next look.
    started.extend(store.start_due().await.unwrap().into_iter().map(|s| s.id));
    started.sort_unstable();
    let distinct = started.len();
    started.dedup();
    assert_eq!((started.len(), distinct), (40, 40));
}

#[tokio::test]
async fn a_new_start_takes_an_expiry_along_that_was_a_span_and_not_one_that_is_a_moment() {
    let (store, _) = stage(3).await;
    let (soon, late) = (now() + HOUR / 2, now() + 5 * HOUR);
    let span = stored(&store, &later("span")).await.id;
    for at in [late, soon, soon] {
        let moved = reschedule(&store, span, Some(at)).await;
        assert_eq!(moved.state, BroadcastState::Scheduled);
        assert!(near(moved.scheduled_at.unwrap(), at) && near(moved.expires_at, at + HOUR), "{moved:?}");
    }
    let expires = now() + 3 * HOUR;
    let moment = stored(&store, &NewBroadcast { expiry: Expiry::At(expires), ..later("moment") }).await.id;
    assert!(near(reschedule(&store, moment, Some(soon)).await.expires_at, expires));
    let refused = store.reschedule_broadcast(moment, Some(late)).await.unwrap();
    assert!(matches!(refused, Rescheduled::ExpiryOutOfRange { .. }), "{refused:?}");
    let refused = store.reschedule_broadcast(span, Some(now() + 31 * DAY)).await.unwrap();
    assert!(matches!(refused, Rescheduled::TooFarAhead { .. }), "{refused:?}");
    assert!(near(store.broadcast(moment).await.unwrap().unwrap().scheduled_at.unwrap(), soon), "unchanged");
    for (id, at) in [(span, None), (moment, Some(now() - HOUR))] {
        let started = reschedule(&store, id, at).await;
        assert_eq!(started.state, BroadcastState::Accepted, "at once");
        assert!(near(started.scheduled_at.unwrap(), now()));
        let again = store.reschedule_broadcast(id, Some(late)).await.unwrap();
        assert!(matches!(&again, Rescheduled::NotScheduled(b) if b.id == id), "{again:?}");
    }
    let unknown = store.reschedule_broadcast(BroadcastId(1), None).await.unwrap();
    assert!(matches!(unknown, Rescheduled::NotFound));
    assert!(store.start_due().await.unwrap().is_empty());
    fan_out_all(&store).await;
    assert_eq!((counts(&store, span).await.total, counts(&store, moment).await.total), (3, 3));
}

#[tokio::test]
async fn one_that_is_cancelled_before_its_time_ends_at_once_and_one_that_is_paused_waits_when_it_starts() {
    let (store, provider) = stage(3).await;
    let cancelled = stored(&store, &later("cancelled")).await.id;
    let paused = stored(&store, &later("paused")).await.id;
    for _ in 0..2 {
        let Controlled::Done(b) = store.cancel_broadcast(cancelled).await.unwrap() else {
            panic!("cancellable")
        };
        assert!(b.state == BroadcastState::Cancelled && b.settled_at.is_some(), "twice is harmless");
    }
    assert!(matches!(store.pause_broadcast(paused).await.unwrap(), Controlled::Done(b) if b.paused));
    come_due(&store).await;
    assert_eq!(store.start_due().await.unwrap().len(), 1);
    fan_out_all(&store).await;
    assert!(Sender::new(&store, provider).claim().await.is_empty());
    assert!(matches!(store.resume_broadcast(paused).await.unwrap(), Controlled::Done(b) if !b.paused));
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim().await, |_| Verdict::Sent).await;
    sweep_all(&store).await;
    assert_eq!((counts(&store, paused).await.sent, counts(&store, cancelled).await.total), (3, 0));
}

#[tokio::test]
async fn the_day_of_a_scheduled_broadcast_is_kept_until_it_is_old_counted_from_its_start() {
    let (store, provider) = stage(3).await;
    let id = stored(&store, &later("k")).await.id;
    // As if it had been accepted 20 days ago, and nothing else had been on that day; its partition is missing, too.
    let earlier = "UPDATE broadcast SET id = broadcast_id_at(now() - interval '20 days'), created_at = now() - interval '20 days',
        expires_at = now() + interval '1 hour', scheduled_at = now() RETURNING id";
    let old = BroadcastId(sql(&store, earlier).await);
    assert_ne!(old, id);
    assert_eq!(store.start_due().await.unwrap().len(), 1);
    fan_out_all(&store).await;
    assert_eq!(counts(&store, old).await.total, 3, "its day was made anew");
    let kept = async |days| {
        let mut partitions = store.partitions(days).await.unwrap();
        partitions.swap_remove(0)
    };
    assert_eq!(kept(14).await.state, PartitionState::Kept, "under way");
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim().await, |_| Verdict::Sent).await;
    sweep_all(&store).await;
    assert_eq!(
        kept(14).await.state,
        PartitionState::Kept,
        "ended today, so it is kept for 14 days from today"
    );
    sql(&store, "UPDATE broadcast SET scheduled_at = scheduled_at - interval '15 days' RETURNING id").await;
    let due = kept(14).await;
    assert_eq!(due.state, PartitionState::Due);
    let mut turn = store.retention_turn().await.unwrap().unwrap();
    assert!(matches!(turn.step(14).await.unwrap(), Step::Dropped { partition, .. } if partition == due));
    turn.end().await.unwrap();
}

#[tokio::test]
async fn a_scheduled_broadcast_whose_time_is_long_past_is_found_by_the_doctor() {
    let (store, _) = stage(0).await;
    let id = stored(&store, &later("k")).await.id;
    let findings = async || store.conditions(14).await.unwrap();
    assert_eq!(findings().await, [], "one that waits for its time needs no sender");
    come_due(&store).await;
    let found = findings().await;
    assert_eq!(
        (found.len(), found[0].check, &*found[0].subject),
        (1, "overdue", &*format!("broadcast {id}"))
    );
    assert!(found[0].detail.starts_with("was to start at "), "{}", found[0].detail);
}
