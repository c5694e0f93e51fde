//! Accept and fan-out: from a request to deliveries.

use std::collections::BTreeSet;

use bongsu_store::{
    Acceptance, Audience, BroadcastState, DeliveryFilter, DeviceFilter, DeviceId, Expiry, FanOut,
};

use crate::harness::{self, sql};
use crate::stage::*;

#[tokio::test]
async fn fan_out_makes_one_delivery_per_device_in_pages_and_batches() {
    let (store, _) = stage(12_345).await;
    let id = accept(&store, "k", Audience::Everyone).await.id;
    let mut pages = vec![];
    while let FanOut::Page { deliveries, finished, .. } = store.fan_out_page().await.unwrap() {
        pages.push((deliveries, finished));
    }
    assert_eq!(pages, [(10_000, false), (2_345, false), (0, true)]);
    assert_eq!(counts(&store, id).await.total, 12_345);
    assert_eq!(sql(&store, "SELECT count(*) FROM batch WHERE size > 500").await, 0);
    assert_eq!(state(&store, id).await, BroadcastState::Delivering);
}

#[tokio::test]
async fn devices_registered_after_the_fan_out_began_are_not_part_of_it() {
    let (store, provider) = stage(10_001).await;
    let id = accept(&store, "k", Audience::Everyone).await.id;
    assert!(matches!(store.fan_out_page().await.unwrap(), FanOut::Page { deliveries: 10_000, .. }));
    store.import(&[registration(provider, 99_999)]).await.unwrap();
    fan_out_all(&store).await;
    assert_eq!(counts(&store, id).await.total, 10_001);
}

#[tokio::test]
async fn fan_out_by_many_processes_at_once_repeats_and_loses_nothing() {
    let (store, _) = stage(30_000).await;
    let mut ids = vec![];
    for n in 0..3 {
        ids.push(accept(&store, &format!("k{n}"), Audience::Everyone).await.id);
    }
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { fan_out_all(&store).await })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    fan_out_all(&store).await;
    for id in ids {
        assert_eq!(counts(&store, id).await.total, 30_000);
    }
}

#[tokio::test]
async fn an_audience_without_any_device_completes_at_once_with_a_total_of_zero() {
    let (store, _) = stage(1).await;
    let nobody = accept(&store, "users", Audience::users(vec!["nobody".into()])).await;
    assert_eq!((nobody.state, nobody.counts.total), (BroadcastState::Completed, 0));
    let topic = accept(&store, "topic", Audience::topics(vec!["empty".into()])).await;
    fan_out_all(&store).await;
    assert_eq!(state(&store, topic.id).await, BroadcastState::Completed);
}

#[tokio::test]
async fn explicit_audiences_reach_each_device_once_small_and_large() {
    let (store, _) = stage(1_200).await;
    let users: Vec<String> = (0..1_200).chain(0..100).map(|n| format!("user-{n}")).collect();
    let small = accept(&store, "small", Audience::users(users[..300].to_vec())).await;
    assert_eq!((small.state, small.counts.total), (BroadcastState::Delivering, 300));
    let large = accept(&store, "large", Audience::users(users)).await;
    let devices: Vec<_> = store
        .list_deliveries(&DeliveryFilter {
            broadcast: small.id,
            states: vec![],
            provider: None,
            after: None,
            limit: 1_000,
        })
        .await
        .unwrap()
        .into_iter()
        .map(|d| d.device)
        .chain([DeviceId(i64::MAX)])
        .collect();
    let listed = accept(&store, "devices", Audience::devices(devices)).await;
    fan_out_all(&store).await;
    assert_eq!(counts(&store, large.id).await.total, 1_200);
    assert_eq!(listed.counts.total, 300);
}

#[tokio::test]
async fn topics_reach_their_subscribers_once_even_those_of_several_topics() {
    let (store, provider) = stage(30).await;
    let ids: Vec<DeviceId> = store
        .list_devices(&DeviceFilter { limit: 100, ..Default::default() })
        .await
        .unwrap()
        .into_iter()
        .map(|d| d.id)
        .collect();
    store.subscribe("news", &ids[..20]).await.unwrap();
    store.subscribe("sport", &ids[10..25]).await.unwrap();
    let id = accept(&store, "k", Audience::topics(vec!["sport".into(), "news".into()])).await.id;
    fan_out_all(&store).await;
    assert_eq!(counts(&store, id).await.total, 25);
    let sender = Sender::new(&store, provider);
    let batches = sender.claim().await;
    assert_eq!(sender.read(&batches).await.len(), 25);
}

#[tokio::test]
async fn the_same_key_from_twenty_callers_at_once_is_one_broadcast() {
    let (store, _) = stage(3).await;
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.accept(&new_broadcast("k", Audience::Everyone)).await.unwrap() })
        })
        .collect();
    let (mut new, mut ids) = (0, BTreeSet::new());
    for call in calls {
        match call.await.unwrap() {
            Acceptance::New(b) => {
                new += 1;
                ids.insert(b.id);
            }
            Acceptance::Replayed(b) => {
                ids.insert(b.id);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((new, ids.len()), (1, 1));
}

#[tokio::test]
async fn a_key_with_other_content_is_refused_and_an_old_key_is_answered_after_its_expiry() {
    let (store, _) = stage(1).await;
    let id = accept(&store, "k", Audience::Everyone).await.id;
    let mut other = new_broadcast("k", Audience::Everyone);
    other.request_hash = [8; 32];
    assert!(matches!(store.accept(&other).await.unwrap(), Acceptance::KeyReused(of) if of == id));
    let mut late = new_broadcast("k", Audience::Everyone);
    late.expiry = Expiry::At(time::OffsetDateTime::now_utc() - HOUR);
    assert!(matches!(store.accept(&late).await.unwrap(), Acceptance::Replayed(b) if b.id == id));
    late.idempotency_key = "new".into();
    assert!(matches!(store.accept(&late).await.unwrap(), Acceptance::ExpiryOutOfRange { .. }));
}

#[tokio::test]
async fn consent_withdrawn_or_a_device_replaced_after_fan_out_is_noticed_before_the_call() {
    let (store, provider) = stage(3).await;
    fanned_out(&store, "k").await;
    store.set_consent(&bongsu_store::ConsentOf::User("user-0".into()), false).await.unwrap();
    let mut other = registration(provider, 1);
    other.user_id = "somebody else".into();
    store.register(&other).await.unwrap();
    let sender = Sender::new(&store, provider);
    let due = sender.read(&sender.claim().await).await;
    let callable: Vec<_> = due.iter().filter_map(|d| d.target()).map(|t| t.token.as_str()).collect();
    assert_eq!((due.len(), callable), (3, vec!["token-2"]));
}

#[tokio::test]
async fn migrations_by_several_processes_at_once_are_applied_once() {
    let store = harness::empty_store().await;
    let runs: Vec<_> = (0..5)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.migrate().await })
        })
        .collect();
    for run in runs {
        run.await.unwrap().unwrap();
    }
    store.check_schema().await.unwrap();
}

#[tokio::test]
async fn short_lists_that_come_at_the_same_time_are_each_stored_once_with_their_own_deliveries() {
    // By two processes: what one of them groups, the other does not see.
    let stores = harness::two_stores().await;
    let [store, _] = &stores;
    furnish(store, 200).await;
    let calls: Vec<_> = (0..200)
        .map(|n| {
            let store = stores[n % 2].clone();
            let users = (0..=n % 3).map(|more| format!("user-{}", (n / 4 + more) % 200)).collect();
            // Four of each, with two contents.
            let mut new = new_broadcast(&format!("k{}", n / 4), Audience::users(users));
            new.request_hash = [u8::try_from(n % 3).unwrap(); 32];
            tokio::spawn(async move { (n, store.accept(&new).await.unwrap()) })
        })
        .collect();
    let mut firsts = std::collections::BTreeMap::new();
    let mut answers = vec![];
    for call in calls {
        match call.await.unwrap() {
            (n, Acceptance::New(b)) => {
                assert_eq!(b.counts.total, (n % 3 + 1) as i64, "k{}", n / 4);
                assert!(firsts.insert(n / 4, (b.id, n % 3)).is_none(), "k{} twice", n / 4);
            }
            other => answers.push(other),
        }
    }
    assert_eq!((firsts.len(), answers.len()), (50, 150));
    for (n, answer) in answers {
        let (id, content) = firsts[&(n / 4)];
        match answer {
            Acceptance::Replayed(b) => assert_eq!((b.id, content), (id, n % 3)),
            Acceptance::KeyReused(of) => assert!(of == id && content != n % 3),
            other => panic!("{other:?}"),
        }
    }
    let made = "SELECT count(*) FROM delivery d JOIN batch b USING (broadcast_id)
                WHERE d.device_id = ANY (b.device_ids) AND b.state = 'ready'";
    let told: usize = firsts.values().map(|(_, content)| content + 1).sum();
    assert_eq!(sql(store, made).await, told as i64);
    assert_eq!(sql(store, "SELECT count(*) FROM delivery").await, told as i64);
}

#[tokio::test]
async fn a_short_list_that_the_database_refuses_takes_no_other_with_it() {
    let (store, _) = stage(40).await;
    let calls: Vec<_> = (0..40)
        .map(|n| {
            let store = store.clone();
            let mut new = new_broadcast(&format!("k{n}"), Audience::users(vec![format!("user-{n}")]));
            if n % 7 == 0 {
                new.message.title = "no \0 in Postgres".into();
            }
            tokio::spawn(async move { store.accept(&new).await })
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        match call.await.unwrap() {
            Ok(Acceptance::New(b)) => assert!(n % 7 != 0 && b.counts.total == 1),
            Err(bongsu_store::StoreError::Data(_)) => assert!(n % 7 == 0),
            other => panic!("{n}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_short_list_is_stored_or_not_also_when_its_caller_goes_away() {
    let (store, _) = stage(60).await;
    let calls: Vec<_> = (0..60)
        .map(|n| {
            let store = store.clone();
            let new = new_broadcast(&format!("k{n}"), Audience::users(vec![format!("user-{n}")]));
            tokio::spawn(async move { store.accept(&new).await })
        })
        .collect();
    calls.iter().step_by(2).for_each(|call| call.abort());
    for call in calls.into_iter().skip(1).step_by(2) {
        assert!(matches!(call.await.unwrap(), Ok(Acceptance::New(_))));
    }
    // Whoever asks again after an answer that was lost learns of the same broadcast, or has it stored now.
    for n in (0..60).step_by(2) {
        let new = new_broadcast(&format!("k{n}"), Audience::users(vec![format!("user-{n}")]));
        let again = store.accept(&new).await.unwrap();
        assert!(
            matches!(&again, Acceptance::New(b) | Acceptance::Replayed(b) if b.counts.total == 1),
            "{again:?}"
        );
    }
    assert_eq!(sql(&store, "SELECT count(*) FROM delivery").await, 60);
    assert_eq!(sql(&store, "SELECT count(*) FROM broadcast").await, 60);
}
