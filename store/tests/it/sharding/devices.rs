//! The number of shards, and what is registered in them.

use std::collections::BTreeSet;

use bongsu_store::{
    Audience, ConsentOf, DeviceFilter, DeviceId, DeviceName, FanOut, ProviderId, ProviderKind, Registration,
    SetShards, Store,
};

use super::{SHARDS, live, reached};
use crate::harness::sql;
use crate::stage::*;

fn installed(provider: ProviderId, n: usize, token: &str) -> Registration {
    Registration {
        token: token.into(),
        installation_id: Some(format!("installation-{n}")),
        ..registration(provider, n)
    }
}

/// A store with another one on the same database, both of which have found out that there is one shard.
async fn two_processes() -> (Store, Store, ProviderId) {
    let url = bongsu_store::testing::fresh_database().await;
    let [one, other] = ["one", "other"].map(|name| Store::new(&url, 4, name).unwrap());
    let provider = one.register_provider("push", ProviderKind::Webhook).await.unwrap().unwrap();
    for store in [&one, &other] {
        assert_eq!(live(store).await, []);
    }
    (one, other, provider)
}

#[tokio::test]
async fn the_number_of_shards_is_set_while_there_are_no_devices_and_then_stays() {
    let (store, other, provider) = two_processes().await;
    assert_eq!(store.set_shards(0).await.unwrap(), SetShards::OutOfRange);
    assert_eq!(store.set_shards(257).await.unwrap(), SetShards::OutOfRange);
    assert_eq!(store.set_shards(1).await.unwrap(), SetShards::Unchanged);
    assert_eq!(store.set_shards(256).await.unwrap(), SetShards::Set);
    assert_eq!(store.set_shards(SHARDS).await.unwrap(), SetShards::Set);
    assert_eq!(store.set_shards(SHARDS).await.unwrap(), SetShards::Unchanged);
    store.register(&registration(provider, 1)).await.unwrap();
    let device = live(&store).await[0];
    store.unregister(&DeviceName::Id(device)).await.unwrap();
    for shards in [1, 8] {
        let refused = SetShards::Devices { shards: SHARDS };
        assert_eq!(other.set_shards(shards).await.unwrap(), refused, "a retired device has a shard, too");
    }
    assert_eq!(other.set_shards(SHARDS).await.unwrap(), SetShards::Unchanged);
}

fn some(provider: ProviderId) -> Vec<Registration> {
    (0..100).map(|n| registration(provider, n)).collect()
}

#[tokio::test]
async fn a_process_that_knows_an_old_number_registers_fans_out_and_accepts_by_the_new_one() {
    let (store, late, provider) = two_processes().await;
    assert_eq!(store.set_shards(SHARDS).await.unwrap(), SetShards::Set);
    assert_eq!(late.import(&some(provider)).await.unwrap().created, 100);
    assert_eq!(store.broken_invariants().await.unwrap(), []);

    let (store, late, provider) = two_processes().await;
    assert_eq!(store.set_shards(SHARDS).await.unwrap(), SetShards::Set);
    store.import(&some(provider)).await.unwrap();
    let everyone = accept(&late, "everyone", Audience::Everyone).await.id;
    assert!(matches!(late.fan_out_page().await.unwrap(), FanOut::Page { deliveries: 1.., .. }));
    fan_out_all(&late).await;
    assert_eq!(reached(&store, everyone).await.len(), 100);

    let (store, late, provider) = two_processes().await;
    assert_eq!(store.set_shards(SHARDS).await.unwrap(), SetShards::Set);
    store.import(&some(provider)).await.unwrap();
    let users = Audience::users((0..100).map(|n| format!("user-{n}")).collect());
    assert_eq!(accept(&late, "users", users).await.counts.total, 100);
}

#[tokio::test]
async fn a_number_set_while_others_register_is_that_of_every_device_or_is_refused() {
    for round in 0..8 {
        let (store, other, provider) = two_processes().await;
        let rows: Vec<_> = (0..50).map(|n| registration(provider, n)).collect();
        let (set, imported) = tokio::join!(store.set_shards(SHARDS), other.import(&rows));
        assert_eq!(imported.unwrap().created, 50);
        let shards = sql(&store, "SELECT shards::bigint FROM settings").await;
        match set.unwrap() {
            SetShards::Set => assert_eq!(shards, 4, "round {round}"),
            refused => assert_eq!((refused, shards), (SetShards::Devices { shards: 1 }, 1), "round {round}"),
        }
        assert_eq!(store.broken_invariants().await.unwrap(), [], "round {round}");
    }
}

#[tokio::test]
async fn a_token_lives_once_whoever_registers_it_and_how_often() {
    let (store, provider) = stage_on(SHARDS, 400).await;
    let used = sql(&store, "SELECT count(DISTINCT shard) FROM device").await;
    assert_eq!((used, live(&store).await.len()), (4, 400));
    let again: Vec<_> = (0..400).map(|n| registration(provider, n)).collect();
    assert_eq!(store.import(&again).await.unwrap().refreshed, 400);
    let registering: Vec<_> = (0..16)
        .map(|n| {
            let (store, row) =
                (store.clone(), Registration { user_id: format!("new-{n}"), ..registration(provider, 7) });
            tokio::spawn(async move { store.register(&row).await })
        })
        .collect();
    for done in registering {
        done.await.unwrap().unwrap();
    }
    assert_eq!(
        sql(&store, "SELECT count(*) FROM device WHERE token = 'token-7' AND retired_at IS NULL").await,
        1
    );
    assert_eq!(store.broken_invariants().await.unwrap(), []);
}

#[tokio::test]
async fn the_newest_token_of_an_installation_wins_in_whatever_shard_it_is() {
    let (store, provider) = stage_on(SHARDS, 0).await;
    let mut shards = BTreeSet::new();
    for n in 0..24 {
        let topics = if n == 0 { vec!["news".into()] } else { vec![] };
        let consent = (n == 0).then_some(false);
        let row = Registration { topics, consent, ..installed(provider, 1, &format!("rotated-{n}")) };
        let device = store.register(&row).await.unwrap().device;
        assert_eq!(live(&store).await, [device.id]);
        assert_eq!((device.topics, device.consent), (vec!["news".to_owned()], false), "inherited");
        shards.insert(sql(&store, "SELECT shard::bigint FROM device WHERE retired_at IS NULL").await);
    }
    assert_eq!(shards.len(), 4);
    assert_eq!(sql(&store, "SELECT count(*) FROM device_topic").await, 1);
    // In one chunk: two devices swap their installations, and others come with new tokens.
    let row = |n: usize, token: usize| installed(provider, n, &format!("swapped-{token}"));
    let first: Vec<_> = (0..100).map(|n| row(n, n)).collect();
    store.import(&first).await.unwrap();
    let swapped: Vec<_> = (0..100).map(|n| row(n, n ^ 1)).collect();
    store.import(&swapped).await.unwrap();
    let moved: Vec<_> = (0..100).map(|n| row(n, n + 1_000)).collect();
    assert_eq!(store.import(&moved).await.unwrap().retired, 100);
    assert_eq!(live(&store).await.len(), 100);
    assert_eq!(store.broken_invariants().await.unwrap(), []);
}

#[tokio::test]
async fn of_tokens_of_one_installation_registered_at_once_one_lives() {
    let (store, provider) = stage_on(SHARDS, 0).await;
    let registering: Vec<_> = (0..32)
        .map(|n| {
            let (store, row) = (store.clone(), installed(provider, 1, &format!("token-{n}")));
            tokio::spawn(async move { store.register(&row).await })
        })
        .collect();
    let importing: Vec<_> = (0..4)
        .map(|n| {
            let rows: Vec<_> = (0..50).map(|i| installed(provider, i, &format!("import-{n}-{i}"))).collect();
            let store = store.clone();
            tokio::spawn(async move { store.import(&rows).await })
        })
        .collect();
    for done in registering {
        done.await.unwrap().unwrap();
    }
    for done in importing {
        done.await.unwrap().unwrap();
    }
    let twice = "SELECT count(*) FROM (SELECT FROM device WHERE retired_at IS NULL GROUP BY installation_id HAVING count(*) > 1) AS i";
    assert_eq!((sql(&store, twice).await, live(&store).await.len()), (0, 50));
}

#[tokio::test]
async fn a_device_is_found_by_its_id_and_listed_in_order_wherever_it_is() {
    let (store, provider) = stage_on(SHARDS, 40).await;
    let all = live(&store).await;
    assert!(all.len() == 40 && all.is_sorted());
    for id in &all {
        assert!(store.device(*id).await.unwrap().is_some());
    }
    let page = |after: Option<DeviceId>, topic: Option<&str>| DeviceFilter {
        after,
        topic: topic.map(Into::into),
        limit: 7,
        ..Default::default()
    };
    let ids = async |filter: DeviceFilter| -> Vec<DeviceId> {
        store.list_devices(&filter).await.unwrap().into_iter().map(|d| d.id).collect()
    };
    assert_eq!(ids(page(Some(all[9]), None)).await, all[10..17]);
    let subscribed = store.subscribe("news", &all).await.unwrap();
    assert_eq!((subscribed.subscribed, subscribed.unknown), (40, vec![]));
    assert_eq!(ids(page(Some(all[9]), Some("news"))).await, all[10..17]);
    assert_eq!(store.unsubscribe("news", &all[..30]).await.unwrap(), 30);
    assert_eq!(ids(page(None, Some("news"))).await, all[30..37]);
    for id in &all {
        assert_eq!(store.set_consent(&ConsentOf::Device(*id), false).await.unwrap(), 1);
    }
    let many: Vec<_> =
        (100..120).map(|n| Registration { user_id: "many".into(), ..registration(provider, n) }).collect();
    store.import(&many).await.unwrap();
    assert_eq!(store.set_consent(&ConsentOf::User("many".into()), false).await.unwrap(), 20);
    let of_user = DeviceFilter { user_id: Some("many".into()), ..page(None, None) };
    assert_eq!(ids(of_user).await.len(), 7);
    for name in [DeviceName::Id(all[0]), DeviceName::Token(provider, "token-1".into())] {
        assert!(store.unregister(&name).await.unwrap().unwrap().retired_at.is_some());
    }
    assert_eq!(live(&store).await.len(), 58);
}
