//! Who gets an event.

use std::collections::BTreeSet;

use bongsu_store::{
    Acceptance, Audience, BroadcastId, BroadcastState, DeviceId, FanOut, ProviderId, ProviderKind,
    Registration, Routing, SetShards, Store, UserNo,
};

use super::*;
use crate::harness;

/// Users with two devices at one provider and a third one at another: more devices than a page has.
const USERS: usize = 1_100;

/// Numbers of users.
fn named(users: impl IntoIterator<Item = usize>) -> Vec<String> {
    users.into_iter().map(|n| format!("user-{n}")).collect()
}

/// A device of each user at a provider; their ids.
async fn import(store: &Store, provider: ProviderId, prefix: &str, topics: &[&str]) -> Vec<DeviceId> {
    let topics: Vec<String> = topics.iter().map(|topic| topic.to_string()).collect();
    let devices: Vec<_> = (0..USERS)
        .map(|n| Registration {
            token: format!("{prefix}-{n}"),
            topics: topics.clone(),
            ..registration(provider, n)
        })
        .collect();
    store.import(&devices).await.unwrap();
    let query = "SELECT id FROM device WHERE token LIKE $1 || '-%' ORDER BY length(token), token";
    let ids: Vec<i64> = sqlx::query_scalar(query).bind(prefix).fetch_all(store.test_pool()).await.unwrap();
    ids.into_iter().map(DeviceId).collect()
}

/// Accepts it and fans it out whole: its id, and whoever was told of it, as often as they were.
async fn publish(store: &Store, new: &NewBroadcast) -> (BroadcastId, Vec<UserNo>) {
    let Acceptance::New(broadcast) = store.accept(new).await.unwrap() else { panic!("new") };
    let mut told = broadcast.told.clone();
    assert_eq!(broadcast.live.events as usize, told.len());
    while let FanOut::Page { told: more, .. } = store.fan_out_page().await.unwrap() {
        told.extend(more);
    }
    (broadcast.id, told)
}

async fn each_kind_makes_one_event_a_user(shards: i16) {
    let store = harness::store().await;
    if shards != 1 {
        assert_eq!(store.set_shards(shards).await.unwrap(), SetShards::Set);
    }
    let provider = async |name| store.register_provider(name, ProviderKind::Webhook).await.unwrap().unwrap();
    let (here, there) = (provider("here").await, provider("there").await);
    let devices = import(&store, here, "a", &["news"]).await;
    import(&store, here, "b", &["news", "sports"]).await;
    import(&store, there, "c", &["sports"]).await;
    // One without consent, and one who has no device, and is known from an event of theirs.
    let silent = Registration {
        token: "silent".into(),
        user_id: "silent".into(),
        consent: Some(false),
        ..registration(here, 0)
    };
    store.import(&[silent]).await.unwrap();
    publish(&store, &routed("guest", Audience::users(vec!["guest".into()]), Routing::Live)).await;

    let all = || named(0..USERS);
    let with = |mut users: Vec<String>, others: &[&str]| {
        users.extend(others.iter().map(|user| user.to_string()));
        users
    };
    let topics = |topics: &[&str]| Audience::topics(topics.iter().map(|topic| topic.to_string()).collect());
    let few: Vec<DeviceId> = devices[..40].to_vec();
    let cases: [(&str, Audience, Vec<String>, usize); 6] = [
        ("topics", topics(&["news", "sports"]), all(), 3 * USERS),
        (
            "a long list",
            Audience::users(with(all(), &["silent", "nobody"])),
            with(all(), &["silent", "nobody"]),
            3 * USERS,
        ),
        (
            "a short list",
            Audience::users(with(named(0..40), &["silent"])),
            with(named(0..40), &["silent"]),
            120,
        ),
        ("many devices", Audience::devices(devices.clone()), all(), USERS),
        ("few devices", Audience::devices(few), named(0..40), 40),
        ("everyone", Audience::Everyone, with(all(), &["guest", "silent", "nobody"]), 3 * USERS),
    ];
    for routing in LIVE {
        for (kind, audience, users, deliveries) in &cases {
            let (id, told) =
                publish(&store, &routed(&format!("{kind} {routing:?}"), audience.clone(), routing)).await;
            let expected: BTreeSet<String> = users.iter().cloned().collect();
            let got: BTreeSet<String> = users_of(&store, id).await.into_iter().collect();
            assert_eq!(got, expected, "{kind}, {routing:?}");
            assert_eq!(told.len(), expected.len(), "{kind}, {routing:?}: each is told once");
            assert_eq!(told.into_iter().collect::<BTreeSet<_>>().len(), expected.len());
            let broadcast = store.broadcast(id).await.unwrap().unwrap();
            assert_eq!(broadcast.live.events as usize, expected.len());
            let pushed = if routing.pushes() { *deliveries } else { 0 };
            assert_eq!(broadcast.counts.total as usize, pushed, "{kind}, {routing:?}");
            let state = if routing.pushes() { BroadcastState::Delivering } else { BroadcastState::Completed };
            assert_eq!(broadcast.state, state, "{kind}, {routing:?}");
        }
    }
    has_no_holes(&store).await;
}

#[tokio::test]
async fn every_audience_and_routing_makes_one_event_a_user_however_many_devices_providers_and_pages_there_are()
 {
    each_kind_makes_one_event_a_user(1).await;
}

#[tokio::test]
async fn so_it_does_on_several_shards() {
    each_kind_makes_one_event_a_user(4).await;
}

#[tokio::test]
async fn a_push_makes_no_event() {
    let (store, _) = stage(3).await;
    let (id, told) = publish(&store, &routed("short", Audience::users(named(0..3)), Routing::Push)).await;
    let (all, told_all) = publish(&store, &routed("all", Audience::Everyone, Routing::Push)).await;
    assert!(told.is_empty() && told_all.is_empty() && inboxes(&store).await.is_empty());
    assert_eq!((counts(&store, id).await.total, counts(&store, all).await.total), (3, 3));
}

#[tokio::test]
async fn a_list_of_users_without_any_device_is_in_their_inboxes_and_ends() {
    let (store, _) = stage(0).await;
    for (n, routing) in LIVE.into_iter().enumerate() {
        let (id, told) =
            publish(&store, &routed(&n.to_string(), Audience::users(named(0..2)), routing)).await;
        assert_eq!(told.len(), 2, "{routing:?}");
        assert_eq!(users_of(&store, id).await.len(), 2);
        assert_eq!(state(&store, id).await, BroadcastState::Completed);
    }
    has_no_holes(&store).await;
}

#[tokio::test]
async fn whoever_asks_again_gets_the_same_broadcast_and_nobody_a_second_event() {
    let (store, _) = stage(2).await;
    for (key, audience) in [("short", Audience::users(named(0..2))), ("all", Audience::Everyone)] {
        let new = routed(key, audience, Routing::LiveThenPush);
        let calls = (0..20).map(|_| {
            let (store, new) = (store.clone(), new.clone());
            tokio::spawn(async move { store.accept(&new).await.unwrap() })
        });
        let (mut new_ones, mut told, mut ids) = (0, 0, BTreeSet::new());
        for call in calls.collect::<Vec<_>>() {
            match call.await.unwrap() {
                Acceptance::New(b) => {
                    ids.insert(b.id);
                    (new_ones, told) = (new_ones + 1, told + b.told.len());
                }
                Acceptance::Replayed(b) => {
                    assert!(b.told.is_empty());
                    ids.insert(b.id);
                }
                other => panic!("{other:?}"),
            }
        }
        fan_out_all(&store).await;
        assert_eq!((new_ones, ids.len()), (1, 1));
        assert_eq!(told, if key == "short" { 2 } else { 0 });
        assert_eq!(users_of(&store, *ids.first().unwrap()).await.len(), 2);
    }
    has_no_holes(&store).await;
}
