//! What a provider's word does to devices, and how it is undone.

use std::time::Duration;

use bongsu_store::{
    BroadcastId, DeadReason, Device, DeviceFilter, DeviceId, DeviceStates, DueDelivery, Fate, Flush,
    ProviderId, RESTORE_STEP, Restorable, RestoreFilter, Restored, RetireReason, Store, Unfit, Verdict,
};

use crate::harness::sql;
use crate::stage::*;

const GONE: Fate = Fate::Retired;

fn suspect() -> Fate {
    Fate::Quarantined { detail: "BadDeviceToken\0".into() }
}

fn unfit(due: &DueDelivery, broadcast: BroadcastId, code: &str, fate: Fate) -> Unfit {
    let target = due.target().unwrap();
    Unfit {
        shard: 0,
        device: due.device,
        token: target.token.clone(),
        registered_at: target.registered_at,
        broadcast,
        code: code.into(),
        fate,
    }
}

/// Sends a broadcast whose every delivery is answered so; what its calls were made to.
async fn answered(
    store: &Store,
    provider: ProviderId,
    key: &str,
    code: &str,
    fate: &Fate,
) -> Vec<DueDelivery> {
    let (sender, id) = (Sender::new(store, provider), fanned_out(store, key).await);
    let batches = sender.claim().await;
    let due = sender.read(&batches).await;
    let reason = if *fate == GONE { DeadReason::Unregistered } else { DeadReason::Rejected };
    let outcomes =
        outcomes(&batches, &due, |_| Verdict::Dead { reason, code: code.into(), detail: String::new() });
    let unfit = due.iter().map(|due| unfit(due, id, code, fate.clone())).collect();
    assert_eq!(sender.flush(Flush { outcomes, closed: batches, unfit }).await.recorded, due.len());
    store.complete_broadcasts(&[id]).await.unwrap();
    due
}

async fn device(store: &Store, id: DeviceId) -> Device {
    store.device(id).await.unwrap().unwrap()
}

async fn in_state(store: &Store, states: DeviceStates) -> Vec<Device> {
    store.list_devices(&DeviceFilter { states, limit: 10_000, ..Default::default() }).await.unwrap()
}

fn all(what: Restorable) -> RestoreFilter {
    RestoreFilter { what, provider: None, code: None, from: None, to: None }
}

/// All steps, added up.
async fn restore(store: &Store, filter: &RestoreFilter, count_only: bool) -> (i64, i64) {
    let (mut sums, mut next) = ((0, 0), None);
    loop {
        let step: Restored = store.restore_step(filter, next, count_only).await.unwrap();
        sums = (sums.0 + step.restored, sums.1 + step.superseded);
        next = step.next;
        if next.is_none() {
            return sums;
        }
    }
}

#[tokio::test]
async fn a_gone_token_retires_and_a_suspect_one_quarantines_unless_it_registered_again_meanwhile() {
    for fate in [GONE, suspect()] {
        let (store, provider) = stage(2).await;
        let (sender, id) = (Sender::new(&store, provider), fanned_out(&store, "k").await);
        let batches = sender.claim().await;
        let due = sender.read(&batches).await;
        let again = due.iter().find(|d| d.target().unwrap().token == "token-1").unwrap().device;
        store.register(&registration(provider, 1)).await.unwrap();
        let unfit = due.iter().map(|d| unfit(d, id, "410", fate.clone())).collect();
        let _ = sender.flush(Flush { unfit, ..Flush::default() }).await;
        for d in due {
            let device = device(&store, d.device).await;
            assert_eq!(device.retired_at.is_some(), fate == GONE && d.device != again);
            assert_eq!(device.quarantined_at.is_some(), fate != GONE && d.device != again);
            let by = device.retired_by.or(device.quarantined_by);
            assert_eq!(by, (d.device != again).then_some(id), "the evidence");
        }
    }
}

#[tokio::test]
async fn a_quarantined_device_is_not_fanned_out_to_not_called_and_not_replayed_until_it_registers_again() {
    let (store, provider) = stage(1).await;
    let waiting = fanned_out(&store, "before").await;
    let sender = Sender::new(&store, provider);
    let held = sender.claim().await;
    let due = answered(&store, provider, "k", "BadDeviceToken", &suspect()).await;
    let id = due[0].device;
    let quarantined = device(&store, id).await;
    assert_eq!(quarantined.quarantine_code.as_deref(), Some("BadDeviceToken"));
    assert_eq!(quarantined.quarantine_detail.as_deref(), Some("BadDeviceToken "));
    assert!(quarantined.retired_at.is_none());
    assert!(sender.read(&held).await.iter().all(|due| due.target().is_none()), "under way: skipped");
    let none = fanned_out(&store, "after").await;
    assert_eq!((counts(&store, waiting).await.total, counts(&store, none).await.total), (1, 0));
    assert_eq!(in_state(&store, DeviceStates::Live).await, []);
    assert_eq!(in_state(&store, DeviceStates::Quarantined).await.len(), 1);
    assert_eq!(in_state(&store, DeviceStates::Registered).await.len(), 1);

    let again = store.register(&registration(provider, 0)).await.unwrap();
    assert_eq!((again.created, again.device.id), (false, id));
    assert!(again.device.quarantined_at.is_none() && again.device.quarantined_by.is_none());
    assert!(sender.read(&held).await.iter().all(|due| due.target().is_some()), "called again");
    let one = fanned_out(&store, "at last").await;
    assert_eq!(counts(&store, one).await.total, 1);
}

#[tokio::test]
async fn a_quarantined_listed_device_is_not_a_target() {
    let (store, provider) = stage(2).await;
    fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    sender.settle_all(&sender.claim().await, |_| retry(Duration::ZERO)).await;
    sql(
        &store,
        "UPDATE device SET quarantined_at = now(), quarantine_code = '', quarantine_detail = '', \
                 quarantined_by = 1 WHERE token = 'token-0' RETURNING id",
    )
    .await;
    let due = sender.read(&sender.claim().await).await;
    let called: Vec<_> = due.iter().filter_map(|due| due.target()).map(|target| &*target.token).collect();
    assert_eq!(called, ["token-1"]);
}

#[tokio::test]
async fn a_retired_device_is_restored_with_its_topics_and_only_once() {
    let (store, provider) = stage(3).await;
    let ids: Vec<_> = in_state(&store, DeviceStates::Live).await.iter().map(|device| device.id).collect();
    store.subscribe("news", &ids[..2]).await.unwrap();
    store.subscribe("sports", &ids[..1]).await.unwrap();
    answered(&store, provider, "k", "410", &GONE).await;
    let retired = in_state(&store, DeviceStates::Retired).await;
    assert_eq!(retired.len(), 3);
    assert!(retired.iter().all(|d| d.retire_code.as_deref() == Some("410") && d.retired_by.is_some()));
    assert_eq!(device(&store, ids[0]).await.topics, Vec::<String>::new());

    assert_eq!(restore(&store, &all(Restorable::Quarantined), false).await, (0, 0));
    assert_eq!(restore(&store, &all(Restorable::Unregistered), true).await, (3, 0));
    assert_eq!(in_state(&store, DeviceStates::Retired).await.len(), 3, "it was only counted");
    assert_eq!(restore(&store, &all(Restorable::Unregistered), false).await, (3, 0));
    assert_eq!(restore(&store, &all(Restorable::Unregistered), false).await, (0, 0));
    let first = device(&store, ids[0]).await;
    assert_eq!(first.topics, ["news", "sports"]);
    assert!(first.retired_at.is_none() && first.retired_by.is_none() && first.retire_code.is_none());
    assert_eq!(device(&store, ids[2]).await.topics, Vec::<String>::new());
}

#[tokio::test]
async fn only_what_matches_is_restored() {
    let (store, provider) = stage(2).await;
    let other = store.register_provider("other", bongsu_store::ProviderKind::Webhook).await.unwrap().unwrap();
    answered(&store, provider, "k", "BadDeviceToken", &suspect()).await;
    let filter = |change: fn(&mut RestoreFilter)| {
        let mut filter = all(Restorable::Quarantined);
        change(&mut filter);
        filter
    };
    let at = RestoreFilter { provider: Some(other), ..all(Restorable::Quarantined) };
    assert_eq!(restore(&store, &at, false).await, (0, 0));
    assert_eq!(restore(&store, &filter(|f| f.code = Some("410".into())), false).await, (0, 0));
    assert_eq!(restore(&store, &filter(|f| f.from = Some(now() + HOUR)), false).await, (0, 0));
    assert_eq!(restore(&store, &filter(|f| f.to = Some(now() - HOUR)), false).await, (0, 0));
    let this = RestoreFilter {
        provider: Some(provider),
        code: Some("BadDeviceToken".into()),
        from: Some(now() - HOUR),
        to: Some(now() + HOUR),
        ..all(Restorable::Quarantined)
    };
    assert_eq!(restore(&store, &this, false).await, (2, 0));
    assert_eq!(in_state(&store, DeviceStates::Live).await.len(), 2);
}

#[tokio::test]
async fn a_token_that_belongs_to_a_newer_device_is_never_restored_not_even_where_that_one_is_retired() {
    let (store, provider) = stage(3).await;
    let old = answered(&store, provider, "k", "410", &GONE).await;
    // Somebody else has the phone of the first now; the second had a new owner who has left since.
    let mut theirs = registration(provider, 0);
    theirs.user_id = "somebody else".into();
    store.register(&theirs).await.unwrap();
    theirs.token = "token-1".into();
    let left = store.register(&theirs).await.unwrap().device.id;
    store.unregister(&bongsu_store::DeviceName::Id(left)).await.unwrap().unwrap();
    for count_only in [true, false] {
        assert_eq!(restore(&store, &all(Restorable::Unregistered), count_only).await, (1, 2));
    }
    let live: Vec<_> = in_state(&store, DeviceStates::Live).await.into_iter().map(|d| d.user_id).collect();
    assert_eq!(live, ["user-2", "somebody else"]);
    let ids: Vec<_> = old.iter().map(|due| due.device).collect();
    let again = store.restore_devices(&ids, false).await.unwrap();
    assert_eq!((again.restored, again.superseded), (0, 2));
}

#[tokio::test]
async fn of_several_retired_tokens_of_an_installation_the_last_is_restored() {
    for listed in [false, true] {
        let (store, provider) = stage(0).await;
        for n in 0..2 {
            let row =
                bongsu_store::Registration { installation_id: Some("i".into()), ..registration(provider, n) };
            store.register(&row).await.unwrap();
            answered(&store, provider, &format!("k{n}"), "410", &GONE).await;
        }
        let retired = in_state(&store, DeviceStates::Retired).await;
        let done = if listed {
            let ids: Vec<_> = retired.iter().map(|device| device.id).collect();
            let done = store.restore_devices(&ids, false).await.unwrap();
            (done.restored, done.superseded)
        } else {
            restore(&store, &all(Restorable::Unregistered), false).await
        };
        assert_eq!(done, (1, 1));
        let live = in_state(&store, DeviceStates::Live).await;
        assert_eq!((live.len(), live[0].token.as_str()), (1, "token-1"));
    }
}

#[tokio::test]
async fn devices_are_restored_by_id_whatever_was_done_to_them_and_others_are_left_alone() {
    let (store, provider) = stage(1).await;
    let gone = answered(&store, provider, "k", "410", &GONE).await[0].device;
    store.register(&registration(provider, 1)).await.unwrap();
    let doubtful = answered(&store, provider, "l", "403", &suspect()).await[0].device;
    let requested = store.register(&registration(provider, 2)).await.unwrap().device.id;
    store.unregister(&bongsu_store::DeviceName::Id(requested)).await.unwrap().unwrap();
    let ids = [gone, doubtful, requested, DeviceId(99)];
    let counted = store.restore_devices(&ids, true).await.unwrap();
    let done = store.restore_devices(&ids, false).await.unwrap();
    assert_eq!((done.restored, done.superseded), (2, 0));
    assert_eq!(counted, done);
    assert_eq!(device(&store, requested).await.retire_reason, Some(RetireReason::Requested));
    assert_eq!(in_state(&store, DeviceStates::Live).await.len(), 2);
}

#[tokio::test]
async fn many_are_restored_in_steps_and_in_every_shard() {
    let devices = RESTORE_STEP + 500;
    let (store, _) = stage_on(4, devices).await;
    sql(
        &store,
        "WITH x AS (UPDATE device SET retired_at = now(), retire_reason = 'unregistered', retired_by = 1, \
                 retire_code = '410', retired_topics = '{}' RETURNING 1) SELECT count(*) FROM x",
    )
    .await;
    assert_eq!(in_state(&store, DeviceStates::Retired).await.len(), devices);
    assert_eq!(restore(&store, &all(Restorable::Unregistered), false).await, (devices as i64, 0));
    assert_eq!(in_state(&store, DeviceStates::Live).await.len(), devices);
}

#[tokio::test]
async fn a_doubted_provider_says_why_it_is_parked_whatever_its_probes_are_answered_and_is_unparked_by_hand() {
    let (store, provider) = stage(1).await;
    let sender = Sender::new(&store, provider);
    let signals = async || store.control_lane(sender.id).signals(&[provider]).await.unwrap()[0];
    assert!(store.doubt_provider(provider, "200 of 200").await.unwrap());
    assert!(signals().await.parked && signals().await.doubted);
    sql(&store, "UPDATE provider SET probe_at = now() RETURNING 1::bigint").await;
    let probe = store.take_probe(provider, HOUR).await.unwrap().unwrap();
    assert!(probe.doubted);
    store.probe_failed(probe, "503", "busy", Duration::ZERO).await.unwrap();
    let listed = &store.list_providers().await.unwrap()[0];
    assert_eq!(listed.parked_code.as_deref(), Some("mass_invalidation"));
    assert_eq!((listed.parked_detail.as_deref(), listed.probes_failed), (Some("200 of 200"), 1));
    let checks: Vec<_> = store.conditions(0).await.unwrap().into_iter().map(|found| found.check).collect();
    assert!(checks.contains(&"doubted") && !checks.contains(&"parked"), "{checks:?}");

    assert_eq!(store.unpark_by_hand("push").await.unwrap(), Some(true));
    assert_eq!(store.unpark_by_hand("push").await.unwrap(), Some(false));
    assert_eq!(store.unpark_by_hand("pull").await.unwrap(), None);
    assert!(!signals().await.parked && !signals().await.doubted);
    assert!(store.park_provider(provider, "503", "").await.unwrap());
    assert!(signals().await.parked && !signals().await.doubted, "the next outage is one of its own");
}

#[tokio::test]
async fn the_doctor_counts_the_quarantined_devices_of_a_provider() {
    let (store, provider) = stage(2).await;
    answered(&store, provider, "k", "SENDER_ID_MISMATCH", &suspect()).await;
    let found = store.conditions(0).await.unwrap();
    let found = found.iter().find(|found| found.check == "quarantined").unwrap();
    assert_eq!(found.subject, "provider push");
    assert!(
        found.detail.contains("2 quarantined") && found.detail.contains("SENDER_ID_MISMATCH"),
        "{found:?}"
    );
}
