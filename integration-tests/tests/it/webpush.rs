//! Web push: what a browser is sent is what was accepted, and nobody but a push service is called.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bongsu_proto::v1::{
    BroadcastStatus, CreateBroadcastRequest, DeviceRegistration, ListDeadLettersRequest, ListDevicesRequest,
    RegisterDeviceRequest,
};
use provider_sim::Behaviour;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tonic::Code;

use crate::world::{World, quick, to_everyone};

const PROVIDER: &str = "web";
/// Of nobody: made for these tests.
const VAPID_KEY: &str = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw";

/// A sender that is told of a push service by a file, as in production, and what the file is in.
async fn with_web_push(private: bool) -> (World, Files) {
    let mut world = World::new(Behaviour::default()).await;
    let files = Files::new(&world, private).await;
    let providers = files.0.join("providers.toml");
    world
        .add_sender(|config| {
            quick(config);
            config.providers = Some(providers);
            config.webhooks.clear();
        })
        .await;
    (world, files)
}

/// A directory of this test's own.
struct Files(std::path::PathBuf);

impl Files {
    async fn new(world: &World, private: bool) -> Self {
        static TESTS: AtomicUsize = AtomicUsize::new(0);
        let name = format!("bongsu-webpush-{}-{}", std::process::id(), TESTS.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let (key, ca) = (directory.join("vapid"), directory.join("ca.pem"));
        std::fs::write(&key, VAPID_KEY).unwrap();
        let url = format!("http://{}/ca.pem", world.sim.address);
        std::fs::write(&ca, reqwest::get(url).await.unwrap().bytes().await.unwrap()).unwrap();
        let text = format!(
            "[providers.{PROVIDER}]\nkind = \"webpush\"\nsubject = \"mailto:ops@example.com\"\n\
             credentials = {{ file = {key:?} }}\nca_file = {ca:?}\nallow_private_addresses = {private}\n\
             mass_invalidation = \"off\"\n"
        );
        std::fs::write(directory.join("providers.toml"), text).unwrap();
        Self(directory)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The subscription of a browser at the simulator, as its page would send it.
async fn subscription(world: &World, name: &str) -> String {
    let url = format!("http://{}/webpush/subscription/{name}", world.sim.address);
    reqwest::get(url).await.unwrap().text().await.unwrap()
}

/// The same at another push service.
async fn subscription_at(world: &World, endpoint: &str) -> String {
    let mut json: Value = serde_json::from_str(&subscription(world, "other").await).unwrap();
    json["endpoint"] = endpoint.into();
    json.to_string()
}

fn of(user: &str, token: String) -> DeviceRegistration {
    DeviceRegistration { user_id: user.into(), provider: PROVIDER.into(), token, ..Default::default() }
}

async fn finish(world: &mut World, request: CreateBroadcastRequest) -> (i64, BroadcastStatus) {
    let id = world.create(request).await.id;
    (id, world.finish(id).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn browsers_are_sent_what_was_accepted_to_the_letter_and_the_books_balance() {
    let (mut world, _files) = with_web_push(true).await;
    let mut registrations = vec![];
    for name in ["expired-1", "rejected-1", "failing-1", "throttled-1", "good-1", "good-2", "good-3"] {
        registrations.push(of(name, subscription(&world, name).await));
    }
    world.import_registrations(registrations).await;
    let data = [("링크".to_owned(), "https://example.com/?q=봉수".to_owned())];
    let request = CreateBroadcastRequest {
        title: "봉수 🔥".into(),
        body: "불이 올랐다 👩‍👩‍👧‍👦 — \"quoted\"\n둘째 줄".into(),
        data: data.into_iter().collect(),
        ..to_everyone("letters")
    };
    let (id, status) = finish(&mut world, request.clone()).await;
    let counts = status.counts.unwrap();
    assert_eq!((counts.total, counts.sent), (7, 4), "{counts:?}");
    assert_eq!(
        (counts.dead_unregistered, counts.dead_rejected, counts.dead_attempts_exhausted),
        (1, 1, 1),
        "{counts:?}"
    );
    let expected = json!({
        "broadcast_id": id.to_string(), "title": request.title, "body": request.body, "data": request.data
    });
    for name in ["good-1", "good-2", "good-3", "throttled-1"] {
        let url = format!("http://{}/webpush/payload/{name}", world.sim.address);
        let sent: Value = reqwest::get(url).await.unwrap().json().await.unwrap();
        assert_eq!(sent, expected, "{name}");
        assert!(world.sim.keys().await.contains(&format!("{name}/{id}")), "{name}");
    }
    let request = ListDevicesRequest { page_size: 100, ..Default::default() };
    let live = world.devices.list_devices(request).await.unwrap().into_inner().devices;
    assert_eq!(live.len(), 6, "only the browser that has unsubscribed is retired");
    assert_eq!(world.sim.stats().await.duplicates, 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_subscription_is_one_device_and_what_is_none_is_refused() {
    let (mut world, _files) = with_web_push(true).await;
    let token = subscription(&world, "good-1").await;
    let pretty = serde_json::to_string(&serde_json::from_str::<Value>(&token).unwrap()).unwrap();
    let mut created = vec![];
    for token in [token, pretty.replace(r#""expirationTime":null,"#, "")] {
        let request = RegisterDeviceRequest { registration: Some(of("user", token)) };
        created.push(world.devices.register_device(request).await.unwrap().into_inner().created);
    }
    assert_eq!(created, [true, false]);
    let request = RegisterDeviceRequest { registration: Some(of("user", "fcm-token".into())) };
    let refused = world.devices.register_device(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("PushSubscription"), "{}", refused.message());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_service_without_http2_is_called_all_the_same_and_no_delivery_twice() {
    let (mut world, _files) = with_web_push(true).await;
    let mut registrations = vec![];
    for n in 0..50 {
        let name = format!("good-{n}");
        registrations.push(of(&name, subscription(&world, &name).await));
    }
    world.import_registrations(registrations).await;
    world.sim.behave(json!({"http1": true})).await;
    for n in 1..=2 {
        let (_, status) = finish(&mut world, to_everyone(&n.to_string())).await;
        let counts = status.counts.unwrap();
        assert_eq!((counts.sent, counts.retried), (50, 0), "{counts:?}");
        let stats = world.sim.stats().await;
        assert_eq!((stats.calls, stats.duplicates), (n * 50, 0));
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_is_not_followed() {
    let (mut world, _files) = with_web_push(true).await;
    let token = subscription(&world, "good-1").await;
    world.import_registrations(vec![of("user", token)]).await;
    world.sim.behave(json!({"status": 307})).await;
    let (_, status) = finish(&mut world, to_everyone("redirected")).await;
    let stats = world.sim.stats().await;
    assert_eq!(status.counts.unwrap().dead_attempts_exhausted, 1);
    assert_eq!((stats.calls, stats.accepted), (4, 0), "each attempt is one call");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_address_is_refused_without_a_connection_whatever_it_is_called() {
    let (mut world, _files) = with_web_push(false).await;
    let internal = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = internal.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    tokio::spawn(async move {
        while internal.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let endpoints = [
        format!("https://127.0.0.1:{port}/a"),
        format!("https://localhost:{port}/a"),
        "https://127.0.0.1/a".to_owned(),
        "https://2130706433/a".to_owned(),
        "https://[::ffff:127.0.0.1]/a".to_owned(),
        "https://169.254.169.254/a".to_owned(),
        "https://localhost/a".to_owned(),
    ];
    for (n, endpoint) in endpoints.iter().enumerate() {
        let token = subscription_at(&world, endpoint).await;
        // Two of them are one address, and so one device.
        world.import_registrations(vec![of(&n.to_string(), token)]).await;
    }
    let (id, status) = finish(&mut world, to_everyone("internal")).await;
    let counts = status.counts.unwrap();
    assert_eq!((counts.total, counts.dead_rejected), (6, 6), "{counts:?}");
    let request = ListDeadLettersRequest { broadcast_id: id, page_size: 100, ..Default::default() };
    let letters =
        world.deliveries().await.list_dead_letters(request).await.unwrap().into_inner().dead_letters;
    let mut codes: Vec<_> = letters.into_iter().map(|letter| letter.code).collect();
    codes.sort();
    assert_eq!(codes, ["not_public", "not_public", "not_public", "not_public", "port", "port"]);
    assert_eq!(connections.load(Ordering::Relaxed), 0);
    world.stop().await;
}
