//! What is kept to say why: attempts that failed, and what happened to devices.

use std::time::Duration;

use bongsu_store::{
    ConsentOf, DeviceEventKind, DeviceId, Explained, Flush, KEPT_FAILURES, ProviderId, Recipient, Restorable,
    RestoreFilter, Store, Verdict,
};

use crate::harness::sql;
use crate::stage::*;

async fn explained(store: &Store, id: bongsu_store::BroadcastId, user: &str) -> Explained {
    store.explain(id, &Recipient::User(user.into())).await.unwrap().unwrap()
}

async fn make_due(store: &Store) {
    sql(store, "UPDATE batch SET next_attempt_at = now() WHERE state = 'waiting' RETURNING 1::bigint").await;
}

fn failing(code: &str, charged: bool) -> Verdict {
    Verdict::Retry { after: Duration::from_secs(30), code: code.into(), detail: "bu\0sy".into(), charged }
}

#[tokio::test]
async fn a_failed_attempt_is_kept_with_the_providers_words_and_what_was_accepted_or_died_costs_no_row() {
    let (store, provider) = stage(3).await;
    let id = fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    let first = sql(&store, "SELECT min(id) FROM device").await;
    let verdict = |d: DeviceId| match d.0 - first {
        0 => failing("503", true),
        1 => exhausted(),
        _ => Verdict::Sent,
    };
    sender.settle_all(&sender.claim().await, verdict).await;
    assert_eq!(sql(&store, "SELECT count(*) FROM attempt_failure").await, 1);
    let device = explained(&store, id, "user-0").await.devices.remove(0);
    let [failure] = &device.failures[..] else { panic!("{:?}", device.failures) };
    assert_eq!((failure.attempt, failure.charged), (1, true));
    assert_eq!((&*failure.code, &*failure.detail), ("503", "bu sy"), "made printable");
    assert_eq!(
        Some(failure.due_at),
        device.delivery.unwrap().next_attempt_at,
        "when it is due is said alike"
    );
    let dead = explained(&store, id, "user-1").await.devices.remove(0);
    assert!(dead.failures.is_empty() && dead.dead_letter.is_some(), "the last failure is the dead letter");
}

#[tokio::test]
async fn a_flush_that_is_written_again_and_a_fenced_one_add_no_failure() {
    let (store, provider) = stage(2).await;
    fanned_out(&store, "k").await;
    let (sender, other) = (Sender::new(&store, provider), Sender::new(&store, provider));
    let batches = sender.claim().await;
    let due = sender.read(&batches).await;
    expire_leases(&store).await;
    let taken = other.claim().await;
    let flush = |batches: &[_]| Flush {
        outcomes: outcomes(batches, &due, |_| failing("503", true)),
        closed: batches.to_vec(),
        unfit: vec![],
    };
    assert_eq!(sender.flush(flush(&batches)).await.fenced, 2);
    assert_eq!(sql(&store, "SELECT count(*) FROM attempt_failure").await, 0, "of a lease that was lost");
    assert_eq!(other.flush(flush(&taken)).await.recorded, 2);
    assert_eq!(other.flush(flush(&taken)).await.recorded, 0);
    assert_eq!(sql(&store, "SELECT count(*) FROM attempt_failure").await, 2);
}

#[tokio::test]
async fn a_delivery_that_is_slowed_down_for_days_keeps_its_last_attempts_and_no_more() {
    let (store, provider) = stage(1).await;
    let id = fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    let made = KEPT_FAILURES + 5;
    for attempt in 1..=made {
        sender.settle_all(&sender.claim().await, |_| failing(&format!("code {attempt}"), false)).await;
        make_due(&store).await;
    }
    let device = explained(&store, id, "user-0").await.devices.remove(0);
    let kept: Vec<i32> = device.failures.iter().map(|f| f.attempt).collect();
    assert_eq!(kept, (made - KEPT_FAILURES + 1..=made).collect::<Vec<_>>());
    assert!(device.failures.iter().all(|f| f.code == format!("code {}", f.attempt) && !f.charged));
}

/// What is told of the only device of a user, in order.
async fn kinds(store: &Store, id: bongsu_store::BroadcastId, user: &str) -> Vec<DeviceEventKind> {
    explained(store, id, user).await.devices[0].events.iter().map(|e| e.kind).collect()
}

#[tokio::test]
async fn every_change_of_consent_is_noted_once_and_what_stays_as_it_is_is_not() {
    let (store, provider) = stage(2).await;
    let id = fanned_out(&store, "k").await;
    let user = ConsentOf::User("user-0".into());
    let device = ConsentOf::Device(explained(&store, id, "user-0").await.devices[0].device.id);
    assert_eq!(store.set_consent(&user, true).await.unwrap(), 1, "it holds for one device");
    assert_eq!(kinds(&store, id, "user-0").await, [], "as it was");
    assert_eq!(store.set_consent(&user, false).await.unwrap(), 1);
    assert_eq!(store.set_consent(&user, false).await.unwrap(), 1);
    assert_eq!(store.set_consent(&device, false).await.unwrap(), 1);
    assert_eq!(store.set_consent(&device, true).await.unwrap(), 1);
    let again = |consent| bongsu_store::Registration { consent, ..registration(provider, 0) };
    store.register(&again(None)).await.unwrap();
    store.register(&again(Some(true))).await.unwrap();
    store.register(&again(Some(false))).await.unwrap();
    use DeviceEventKind::{ConsentGiven, ConsentWithdrawn};
    assert_eq!(kinds(&store, id, "user-0").await, [ConsentWithdrawn, ConsentGiven, ConsentWithdrawn]);
    assert_eq!(kinds(&store, id, "user-1").await, [], "nobody else's");
    assert_eq!(store.set_consent(&ConsentOf::Device(DeviceId(i64::MAX)), true).await.unwrap(), 0);
}

#[tokio::test]
async fn what_a_device_was_put_aside_for_is_known_after_it_was_restored_or_registered_again() {
    let (store, provider) = stage(2).await;
    let id = fanned_out(&store, "k").await;
    let put_aside =
        "UPDATE device SET quarantined_at = now() - interval '1 hour', quarantine_code = 'BadDeviceToken',
        quarantine_detail = 'no', quarantined_by = 7 RETURNING 1::bigint";
    sql(&store, put_aside).await;
    store.register(&registration(provider, 0)).await.unwrap();
    let retire = "UPDATE device SET retired_at = now(), retire_reason = 'unregistered', retired_by = 8, retire_code = '410',
        retired_topics = '{}' WHERE user_id = 'user-1' RETURNING 1::bigint";
    sql(&store, retire).await;
    let filter =
        RestoreFilter { what: Restorable::Unregistered, provider: None, code: None, from: None, to: None };
    assert_eq!(store.restore_step(&filter, None, false).await.unwrap().restored, 1);

    use DeviceEventKind::{QuarantineEnded, QuarantineUndone, RetirementUndone};
    let again = explained(&store, id, "user-0").await.devices.remove(0);
    let [event] = &again.events[..] else { panic!("{:?}", again.events) };
    assert_eq!((event.kind, event.code.as_deref()), (QuarantineEnded, Some("BadDeviceToken")));
    assert_eq!((event.detail.as_deref(), event.broadcast.map(|b| b.0)), (Some("no"), Some(7)));
    assert!(event.since.unwrap() < event.at);
    assert_eq!(kinds(&store, id, "user-1").await, [QuarantineUndone, RetirementUndone]);
    let restored = explained(&store, id, "user-1").await.devices.remove(0).events.remove(1);
    assert_eq!((restored.code.as_deref(), restored.broadcast.map(|b| b.0)), (Some("410"), Some(8)));
}

#[tokio::test]
async fn importing_new_devices_notes_nothing() {
    let (store, _): (_, ProviderId) = stage(1_000).await;
    assert_eq!(sql(&store, "SELECT count(*) FROM device_event").await, 0);
}

#[tokio::test]
async fn failed_attempts_leave_with_the_day_of_their_broadcast_and_events_with_the_history() {
    let (store, provider) = stage(1).await;
    store.add_history(100, 5).await.unwrap();
    let old = "INSERT INTO attempt_failure (shard, broadcast_id, provider_id, device_id, attempt, slot, due_at, charged, code, detail)
        SELECT 0, id, 1, n, 1, 1, now(), true, '503', '' FROM broadcast, generate_series(1, 2500) AS n WHERE client_id = 'history'
        RETURNING 1::bigint";
    sql(&store, old).await;
    let events = "INSERT INTO device_event (shard, device_id, at, kind)
        SELECT 0, 1, now() - make_interval(days => n), 'consent_given' FROM generate_series(0, 9) AS n RETURNING 1::bigint";
    sql(&store, events).await;
    fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim().await, |_| failing("503", true)).await;
    let mut turn = store.retention_turn().await.unwrap().unwrap();
    while !matches!(turn.step(2).await.unwrap(), bongsu_store::Step::Done) {}
    let (mut failures, mut events, mut most) = (0, 0, 0);
    loop {
        let purged = turn.purge(2, 5).await.unwrap();
        failures += purged.failures;
        events += purged.device_events;
        most = most.max(purged.failures);
        if !purged.more {
            break;
        }
    }
    turn.end().await.unwrap();
    assert_eq!((failures, events), (3 * 2_500, 5));
    assert!(most < 7_500, "in steps: {most}");
    assert_eq!(sql(&store, "SELECT count(*) FROM attempt_failure").await, 2 * 2_500 + 1);
}
