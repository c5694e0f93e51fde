//! The rules of registration: who replaces whom, what is inherited, and that it holds when many do it at once.

use std::collections::BTreeSet;

use bongsu_store::{
    ConsentOf, Device, DeviceFilter, DeviceId, DeviceName, DeviceStates, Imported, ProviderId, ProviderKind,
    Registered, Registration, RetireReason, Store,
};

use crate::harness;

/// A store with one provider.
async fn fresh() -> (Store, ProviderId) {
    let store = harness::store().await;
    let provider = store.register_provider("hook", ProviderKind::Webhook).await.expect("provider");
    (store, provider.expect("a new name"))
}

fn row(provider: ProviderId, token: &str, user: &str) -> Registration {
    Registration {
        provider_id: provider,
        token: token.into(),
        user_id: user.into(),
        installation_id: None,
        consent: None,
        topics: vec![],
    }
}

fn installed(provider: ProviderId, token: &str, user: &str, installation: &str) -> Registration {
    Registration { installation_id: Some(installation.into()), ..row(provider, token, user) }
}

async fn register(store: &Store, row: &Registration) -> Registered {
    store.register(row).await.expect("registers")
}

async fn device(store: &Store, id: DeviceId) -> Device {
    store.device(id).await.expect("reads").expect("is there")
}

async fn live(store: &Store) -> Vec<Device> {
    store.list_devices(&DeviceFilter { limit: 100_000, ..Default::default() }).await.expect("lists")
}

#[tokio::test]
async fn the_same_registration_again_only_refreshes_it() {
    let (store, p) = fresh().await;
    let first = register(&store, &Registration { consent: Some(false), ..row(p, "t", "u") }).await;
    assert!(first.created && !first.device.consent);
    let again = register(&store, &row(p, "t", "u")).await;
    assert!(!again.created);
    assert_eq!(again.device.id, first.device.id);
    assert!(!again.device.consent, "unset consent leaves it as it is");
    assert!(again.device.registered_at > first.device.registered_at);
    let given = register(&store, &Registration { consent: Some(true), ..row(p, "t", "u") }).await;
    assert!(given.device.consent);
}

#[tokio::test]
async fn a_token_registered_for_another_user_is_a_new_device_with_nothing_of_the_old_one() {
    let (store, p) = fresh().await;
    let old = Registration { consent: Some(false), topics: vec!["news".into()], ..row(p, "t", "old") };
    let old = register(&store, &old).await.device;
    let new = register(&store, &row(p, "t", "new")).await;
    assert!(new.created && new.device.consent && new.device.topics.is_empty());
    assert_ne!(new.device.id, old.id);
    let old = device(&store, old.id).await;
    assert_eq!(old.retire_reason, Some(RetireReason::Replaced));
    assert!(old.retired_at.is_some() && old.topics.is_empty());
}

#[tokio::test]
async fn a_rotated_token_of_an_installation_inherits_consent_and_topics() {
    let (store, p) = fresh().await;
    let old = Registration {
        consent: Some(false),
        topics: vec!["sport".into(), "news".into()],
        ..installed(p, "t1", "u", "i")
    };
    let old = register(&store, &old).await.device;
    assert_eq!(old.topics, ["news", "sport"]);
    let rotated = Registration { topics: vec!["art".into()], ..installed(p, "t2", "u", "i") };
    let new = register(&store, &rotated).await;
    assert!(new.created && !new.device.consent);
    assert_eq!(new.device.topics, ["art", "news", "sport"]);
    assert_eq!(device(&store, old.id).await.retire_reason, Some(RetireReason::Replaced));
}

#[tokio::test]
async fn consent_given_with_a_rotated_token_wins_over_the_inherited_one() {
    let (store, p) = fresh().await;
    register(&store, &Registration { consent: Some(false), ..installed(p, "t1", "u", "i") }).await;
    let new = register(&store, &Registration { consent: Some(true), ..installed(p, "t2", "u", "i") }).await;
    assert!(new.device.consent);
}

#[tokio::test]
async fn another_user_on_the_same_installation_inherits_nothing() {
    let (store, p) = fresh().await;
    let old =
        Registration { consent: Some(false), topics: vec!["news".into()], ..installed(p, "t1", "a", "i") };
    register(&store, &old).await;
    let new = register(&store, &installed(p, "t2", "b", "i")).await.device;
    assert!(new.consent && new.topics.is_empty());
    assert_eq!(live(&store).await.len(), 1);
}

#[tokio::test]
async fn an_installation_at_another_provider_is_another_one() {
    let (store, p) = fresh().await;
    let q = store.register_provider("hook2", ProviderKind::Webhook).await.expect("provider").expect("new");
    register(&store, &installed(p, "t", "u", "i")).await;
    register(&store, &installed(q, "t", "u", "i")).await;
    assert_eq!(live(&store).await.len(), 2);
}

#[tokio::test]
async fn devices_may_swap_installations_in_one_chunk() {
    let (store, p) = fresh().await;
    let rows = [installed(p, "a", "u", "i"), installed(p, "b", "u", "j")];
    store.import(&rows).await.expect("imports");
    let swapped = [installed(p, "a", "u", "j"), installed(p, "b", "u", "i")];
    let done = store.import(&swapped).await.expect("imports");
    assert_eq!(done, Imported { refreshed: 2, ..Default::default() });
    let installations: Vec<_> = live(&store).await.into_iter().map(|d| d.installation_id).collect();
    assert_eq!(installations, [Some("j".into()), Some("i".into())]);
}

#[tokio::test]
async fn every_row_of_a_chunk_is_counted_once() {
    let (store, p) = fresh().await;
    let before = [row(p, "known", "u"), row(p, "moves", "u"), installed(p, "rotates", "u", "i")];
    store.import(&before).await.expect("imports");
    let rows = [
        row(p, "double", "first"),
        row(p, "known", "u"),
        row(p, "moves", "v"),
        installed(p, "rotated", "u", "i"),
        row(p, "new", "u"),
        row(p, "double", "last"),
    ];
    let done = store.import(&rows).await.expect("imports");
    assert_eq!(done, Imported { created: 4, refreshed: 1, superseded: 1, retired: 2 });
    let users: BTreeSet<(String, String)> =
        live(&store).await.into_iter().map(|d| (d.token, d.user_id)).collect();
    let expected = [("double", "last"), ("known", "u"), ("moves", "v"), ("new", "u"), ("rotated", "u")];
    assert_eq!(users, expected.map(|(t, u)| (t.to_owned(), u.to_owned())).into());
}

#[tokio::test]
async fn an_empty_chunk_is_no_error() {
    let (store, _) = fresh().await;
    assert_eq!(store.import(&[]).await.expect("imports"), Imported::default());
}

#[tokio::test]
async fn a_retired_device_never_comes_back() {
    let (store, p) = fresh().await;
    let first = register(&store, &row(p, "t", "u")).await.device;
    let gone = store.unregister(&DeviceName::Id(first.id)).await.expect("retires").expect("is there");
    assert_eq!(gone.retire_reason, Some(RetireReason::Requested));
    let again = store.unregister(&DeviceName::Id(first.id)).await.expect("is harmless").expect("is there");
    assert_eq!(again, gone);
    let second = register(&store, &row(p, "t", "u")).await;
    assert!(second.created && second.device.id != first.id);
}

#[tokio::test]
async fn a_device_is_unregistered_by_its_token_too() {
    let (store, p) = fresh().await;
    let name = DeviceName::Token(p, "t".into());
    assert!(store.unregister(&name).await.expect("asks").is_none());
    let registered = register(&store, &row(p, "t", "u")).await.device;
    let gone = store.unregister(&name).await.expect("retires").expect("is there");
    assert_eq!(gone.id, registered.id);
    assert!(store.unregister(&name).await.expect("asks").is_none(), "no live device has it now");
}

#[tokio::test]
async fn consent_is_set_for_a_device_or_for_all_live_devices_of_a_user() {
    let (store, p) = fresh().await;
    let one = register(&store, &row(p, "t1", "u")).await.device.id;
    let two = register(&store, &row(p, "t2", "u")).await.device.id;
    let other = register(&store, &row(p, "t3", "v")).await.device.id;
    assert_eq!(store.set_consent(&ConsentOf::Device(one), false).await.expect("sets"), 1);
    assert!(!device(&store, one).await.consent && device(&store, two).await.consent);
    assert_eq!(store.set_consent(&ConsentOf::User("u".into()), false).await.expect("sets"), 2);
    assert!(!device(&store, two).await.consent && device(&store, other).await.consent);
    assert_eq!(store.set_consent(&ConsentOf::User("nobody".into()), true).await.expect("sets"), 0);
    assert_eq!(store.set_consent(&ConsentOf::Device(DeviceId(999)), true).await.expect("sets"), 0);
}

#[tokio::test]
async fn topics_take_live_devices_and_name_the_others() {
    let (store, p) = fresh().await;
    let one = register(&store, &row(p, "t1", "u")).await.device.id;
    let gone = register(&store, &row(p, "t2", "u")).await.device.id;
    store.unregister(&DeviceName::Id(gone)).await.expect("retires");
    let ids = [one, gone, DeviceId(999)];
    let done = store.subscribe("news", &ids).await.expect("subscribes");
    assert_eq!((done.subscribed, done.unknown), (1, vec![gone, DeviceId(999)]));
    assert_eq!(store.subscribe("news", &[one]).await.expect("subscribes").subscribed, 0);
    assert_eq!(device(&store, one).await.topics, ["news"]);
    assert_eq!(store.unsubscribe("news", &ids).await.expect("unsubscribes"), 1);
    assert!(device(&store, one).await.topics.is_empty());
}

#[tokio::test]
async fn lists_are_filtered_and_paged_in_order_of_id() {
    let (store, p) = fresh().await;
    let q = store.register_provider("hook2", ProviderKind::Webhook).await.expect("provider").expect("new");
    let mut rows = vec![];
    for n in 0..6 {
        let provider = if n % 2 == 0 { p } else { q };
        let topics = if n < 4 { vec!["news".into()] } else { vec![] };
        rows.push(Registration { topics, ..row(provider, &format!("t{n}"), if n < 3 { "u" } else { "v" }) });
    }
    for row in &rows {
        register(&store, row).await;
    }
    let all = live(&store).await;
    store.unregister(&DeviceName::Id(all[0].id)).await.expect("retires");
    let tokens = async |filter: DeviceFilter| -> Vec<String> {
        let devices = store.list_devices(&filter).await.expect("lists");
        devices.into_iter().map(|device| device.token).collect()
    };
    let any = || DeviceFilter { limit: 10, ..Default::default() };
    assert_eq!(tokens(any()).await, ["t1", "t2", "t3", "t4", "t5"]);
    assert_eq!(tokens(DeviceFilter { states: DeviceStates::All, limit: 1, ..any() }).await, ["t0"]);
    assert_eq!(tokens(DeviceFilter { after: Some(all[2].id), limit: 2, ..any() }).await, ["t3", "t4"]);
    let (user, topic) = (Some("u".to_owned()), Some("news".to_owned()));
    assert_eq!(tokens(DeviceFilter { user_id: user.clone(), ..any() }).await, ["t1", "t2"]);
    assert_eq!(tokens(DeviceFilter { topic: topic.clone(), ..any() }).await, ["t1", "t2", "t3"]);
    assert_eq!(tokens(DeviceFilter { topic: topic.clone(), limit: 1, ..any() }).await, ["t1"]);
    let at = Some("hook2".to_owned());
    assert_eq!(tokens(DeviceFilter { provider: at.clone(), ..any() }).await, ["t1", "t3", "t5"]);
    assert_eq!(tokens(DeviceFilter { provider: at, user_id: user, topic, ..any() }).await, ["t1"]);
}

/// Chunks of the same tokens for different users, in different orders, at the same time: no error, no deadlock, one
/// live device per token.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn registrations_of_the_same_tokens_at_the_same_time_leave_one_live_device_each() {
    const TOKENS: usize = 300;
    let (store, p) = fresh().await;
    let importers = (0..8).map(|n| {
        let store = store.clone();
        let mut rows: Vec<Registration> =
            (0..TOKENS).map(|t| row(p, &format!("t{t}"), &format!("user{n}"))).collect();
        if n % 2 == 0 {
            rows.reverse();
        }
        tokio::spawn(async move {
            for _ in 0..5 {
                store.import(&rows).await.expect("a race is no error");
            }
        })
    });
    for importer in importers.collect::<Vec<_>>() {
        importer.await.expect("ends");
    }
    let devices = live(&store).await;
    let tokens: BTreeSet<&str> = devices.iter().map(|device| device.token.as_str()).collect();
    assert_eq!((devices.len(), tokens.len()), (TOKENS, TOKENS));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_installation_with_many_tokens_at_the_same_time_ends_with_one_live_device() {
    let (store, p) = fresh().await;
    let callers: Vec<_> = (0..16)
        .map(|n| {
            let store = store.clone();
            let row = installed(p, &format!("t{n}"), "u", "i");
            tokio::spawn(async move { store.register(&row).await.expect("a race is no error").device.id })
        })
        .collect();
    for caller in callers {
        caller.await.expect("ends");
    }
    assert_eq!(live(&store).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_token_registered_by_twenty_callers_is_made_once() {
    let (store, p) = fresh().await;
    let callers: Vec<_> = (0..20)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.register(&row(p, "t", "u")).await.expect("registers") })
        })
        .collect();
    let mut created = 0;
    for caller in callers {
        created += usize::from(caller.await.expect("ends").created);
    }
    assert_eq!(created, 1);
    assert_eq!(live(&store).await.len(), 1);
}
