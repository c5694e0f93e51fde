//! Answers: lists of deliveries in bounded steps, explanations, senders.

use std::time::Duration;

use bongsu_store::{
    Audience, DeadReason, DeliveryFilter, DeliverySearch, DeviceId, Recipient, SEARCH_STEP, SenderLife,
    Store, Verdict,
};

use crate::harness::sql;
use crate::stage::*;

fn search(broadcast: bongsu_store::BroadcastId, limit: i64) -> DeliverySearch {
    DeliveryFilter { broadcast, states: vec![], provider: None, after: None, limit }.into()
}

/// All that match, and in how many steps.
async fn walked(store: &Store, mut search: DeliverySearch) -> (Vec<DeviceId>, usize) {
    let (mut found, mut steps) = (vec![], 0);
    loop {
        let page = store.search_deliveries(&search).await.unwrap();
        steps += 1;
        assert!(page.deliveries.len() as i64 <= search.filter.limit);
        found.extend(page.deliveries.iter().map(|d| d.device));
        match page.next {
            Some(next) => search.filter.after = Some(next),
            None => return (found, steps),
        }
    }
}

#[tokio::test]
async fn a_search_that_finds_nothing_for_long_says_where_to_go_on_and_ends_with_all_that_match() {
    let devices = usize::try_from(SEARCH_STEP).unwrap() + 5_000;
    for shards in [1, 3] {
        let (store, provider) = stage_on(shards, devices).await;
        let id = fanned_out(&store, "k").await;
        let sender = Sender::new(&store, provider);
        let last = DeviceId(sql(&store, "SELECT max(id) FROM device").await);
        let verdict = |d: DeviceId| if d == last { exhausted() } else { Verdict::Sent };
        loop {
            let batches = sender.claim_up_to(1_000).await;
            if batches.is_empty() {
                break;
            }
            sender.settle_all(&batches, verdict).await;
        }
        let one = DeliverySearch { code: Some("503".into()), ..search(id, 10) };
        let first = store.search_deliveries(&one).await.unwrap();
        assert!(first.deliveries.is_empty() && first.next.is_some(), "the step ended before it");
        assert_eq!(walked(&store, one).await, (vec![last], 2));
        let reason = DeliverySearch { reasons: vec![DeadReason::AttemptsExhausted], ..search(id, 10) };
        assert_eq!(walked(&store, reason).await.0, [last]);
        let now = sql(&store, "SELECT extract(epoch FROM now())::bigint").await;
        let past = time::OffsetDateTime::from_unix_timestamp(now - 3_600).unwrap();
        let settled = DeliverySearch { settled_to: Some(past), ..search(id, 10) };
        assert_eq!(walked(&store, settled).await.0, []);
        let (all, _) = walked(&store, DeliverySearch { settled_from: Some(past), ..search(id, 1_000) }).await;
        assert_eq!(all.len(), devices, "each once");
        assert!(all.is_sorted());
    }
}

#[tokio::test]
async fn a_users_deliveries_are_found_by_the_users_devices() {
    let (store, provider) = stage(10).await;
    let more = (10..13)
        .map(|n| bongsu_store::Registration { user_id: "user-1".into(), ..registration(provider, n) });
    store.import(&more.collect::<Vec<_>>()).await.unwrap();
    let id = fanned_out(&store, "k").await;
    let of = |recipient, limit| DeliverySearch { recipient: Some(recipient), ..search(id, limit) };
    let (mine, steps) = walked(&store, of(Recipient::User("user-1".into()), 3)).await;
    assert_eq!((mine.len(), steps), (4, 2));
    let some = Recipient::Devices(vec![mine[1], DeviceId(i64::MAX)]);
    assert_eq!(walked(&store, of(some, 3)).await.0, [mine[1]]);
    assert_eq!(walked(&store, of(Recipient::User("nobody".into()), 3)).await.0, []);
}

#[tokio::test]
async fn an_explanation_has_a_users_newest_devices_and_says_that_there_are_more() {
    let (store, provider) = stage(1).await;
    let many: Vec<_> = (1..150)
        .map(|n| bongsu_store::Registration { user_id: "many".into(), ..registration(provider, n) })
        .collect();
    store.import(&many).await.unwrap();
    let id = accept(&store, "k", Audience::users(vec!["many".into()])).await.id;
    let explained = store.explain(id, &Recipient::User("many".into())).await.unwrap().unwrap();
    assert!(explained.more_devices && explained.devices.len() == bongsu_store::MOST_DEVICES);
    let newest = sql(&store, "SELECT max(id) FROM device").await;
    assert_eq!(explained.devices[0].device.id, DeviceId(newest));
    assert!(explained.devices.iter().all(|d| d.delivery.is_some() && d.listed == Some(true)));
    let other = store.explain(id, &Recipient::User("user-0".into())).await.unwrap().unwrap();
    assert_eq!((other.devices.len(), other.devices[0].listed), (1, Some(false)));
    let nobody = store.explain(id, &Recipient::User("nobody".into())).await.unwrap().unwrap();
    assert!(nobody.devices.is_empty());
    let missing = store.explain(bongsu_store::BroadcastId(7), &Recipient::User("many".into())).await.unwrap();
    assert!(missing.is_none());
}

#[tokio::test]
async fn a_sender_is_listed_with_what_it_holds_and_whether_it_lives() {
    let (store, provider) = stage(1_200).await;
    fanned_out(&store, "k").await;
    let sender = Sender::new(&store, provider);
    let mut control = store.control_lane(sender.id);
    control.heartbeat(7, &[]).await.unwrap();
    let batches = sender.claim().await;
    let due = sender.read(&batches).await;
    let outcomes = outcomes(&batches, &due[..200], |_| Verdict::Sent);
    assert_eq!(sender.flush(bongsu_store::Flush { outcomes, ..Default::default() }).await.recorded, 200);
    let listed = store.senders().await.unwrap();
    let [one] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((one.id, one.life, one.in_flight), (sender.id, SenderLife::Alive, 7));
    assert_eq!((one.batches, one.deliveries), (3, 1_000));
    assert_eq!(one.version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert!(one.silent < Duration::from_secs(60));

    let late = "UPDATE sender SET heartbeat_at = now() - interval '2 s' RETURNING 1::bigint";
    sql(&store, late).await;
    assert_eq!(store.senders().await.unwrap()[0].life, SenderLife::Silent, "it has its lock");
    control.close().await;
    // Evidence from before the server started proves nothing, and this one may be as young.
    let recent = "SELECT (heartbeat_at > pg_postmaster_start_time())::int::bigint FROM sender";
    let expected = if sql(&store, recent).await == 1 { SenderLife::Dead } else { SenderLife::Silent };
    crate::harness::until(async || store.senders().await.unwrap()[0].life == expected).await;
}
