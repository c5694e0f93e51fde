//! Deliveries go through Firebase Cloud Messaging as through any provider, and what is wrong with access tokens is no
//! device's fault.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bongsu_proto::v1::{CreateBroadcastRequest, ListDeadLettersRequest};
use provider_sim::Behaviour;
use serde_json::{Value, json};
use tonic::Code;

use crate::outage::parked;
use crate::world::{World, quick, to_everyone, until};

/// A world whose only provider is FCM at the simulator, over TLS, with the files that the sender reads.
struct FcmWorld {
    world: World,
    http: reqwest::Client,
    folder: PathBuf,
    key_file: Value,
}

impl FcmWorld {
    async fn new(behaviour: Behaviour, in_flight: u32) -> Self {
        let mut fcm = Self::without_sender(behaviour).await;
        fcm.write_key_file(&fcm.key_file);
        fcm.add_sender(in_flight).await;
        fcm
    }

    async fn without_sender(behaviour: Behaviour) -> Self {
        let world = World::new(behaviour).await;
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let get = async |path: &str| {
            let url = format!("http://{}{path}", world.sim.address);
            http.get(url).send().await.unwrap().text().await.unwrap()
        };
        let name = format!("bongsu-fcm-{}-{}", std::process::id(), world.sim.address.port());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("ca.pem"), get("/ca.pem").await).unwrap();
        let key_file = serde_json::from_str(&get("/fcm/service-account.json").await).unwrap();
        Self { world, http, folder, key_file }
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn write_key_file(&self, key_file: &Value) {
        // In one step, since the sender may look at any moment.
        let new = self.file("new.json");
        std::fs::write(&new, key_file.to_string()).unwrap();
        std::fs::rename(new, Path::new(&self.file("firebase.json"))).unwrap();
    }

    async fn add_sender(&mut self, in_flight: u32) {
        let providers = format!(
            r#"
            [providers.push]
            kind = "fcm"
            credentials = {{ file = "{}" }}
            ca_file = "{}"
            endpoint = "https://{}"
            android_channel_id = "news"
            in_flight = {in_flight}
            retry = {{ floor_ms = 0 }}
            "#,
            self.file("firebase.json"),
            self.file("ca.pem"),
            self.world.sim.address,
        );
        let path = self.folder.join("providers.toml");
        std::fs::write(&path, providers).unwrap();
        let with_file = |config: &mut sender_svc::Config| {
            quick(config);
            config.webhooks.clear();
            config.providers = Some(path);
        };
        self.world.add_sender(with_file).await;
    }

    async fn revoke(&self) {
        let url = format!("http://{}/fcm/revoke", self.world.sim.address);
        assert!(self.http.post(url).send().await.unwrap().status().is_success());
    }

    async fn stop(self) {
        self.world.stop().await;
        std::fs::remove_dir_all(self.folder).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_token_has_the_outcome_of_fcms_answer_and_one_access_token_serves_all_calls() {
    let mut fcm = FcmWorld::new(Behaviour { latency_ms: 10, ..Default::default() }, 100).await;
    let kinds = [
        ("good", 500),
        ("throttled", 3),
        ("expired", 20),
        ("rejected", 20),
        ("mismatched", 20),
        ("failing", 5),
    ];
    let tokens = kinds.iter().flat_map(|(kind, count)| (0..*count).map(move |n| format!("{kind}-{n}")));
    let world = &mut fcm.world;
    world.import(tokens).await;
    let id = world.broadcast("k").await.id;
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.total, counts.sent), (568, 503), "{counts:?}");
    assert_eq!((counts.dead_unregistered, counts.dead_rejected), (20, 40), "{counts:?}");
    assert_eq!(counts.dead_attempts_exhausted, 5, "{counts:?}");

    let request = ListDeadLettersRequest { broadcast_id: id, page_size: 1_000, ..Default::default() };
    let letters = world.deliveries().await.list_dead_letters(request).await.unwrap().into_inner();
    let mut codes = BTreeMap::new();
    for letter in &letters.dead_letters {
        *codes.entry(letter.code.as_str()).or_insert(0) += 1;
    }
    let expected =
        [("INVALID_ARGUMENT", 20), ("SENDER_ID_MISMATCH", 20), ("UNAVAILABLE", 5), ("UNREGISTERED", 20)];
    assert_eq!(codes, BTreeMap::from(expected));

    let stats = world.sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates, stats.refused, stats.fcm_tokens), (503, 0, 0, 1));
    assert_eq!((stats.throttled, stats.failing), (3, 20));
    assert!(world.sim.keys().await.contains(&format!("good-0/{id}")));
    fcm.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn access_tokens_that_end_in_mid_run_are_replaced_once_and_no_delivery_notices() {
    let mut fcm = FcmWorld::new(Behaviour { latency_ms: 20, ..Default::default() }, 100).await;
    fcm.world.import_good(3_000).await;
    let id = fcm.world.broadcast("k").await.id;
    fcm.world.sim.accepted(500).await;
    fcm.revoke().await;
    let counts = fcm.world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead, counts.retried), (3_000, 0, 0), "{counts:?}");
    let stats = fcm.world.sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates, stats.fcm_tokens), (3_000, 0, 2));
    // Those that were on their way, each once.
    assert!((1..=200).contains(&stats.refused), "{stats:?}");
    fcm.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_access_token_is_there_before_the_present_one_ends() {
    let short = Behaviour { latency_ms: 30, fcm_token_lifetime_s: 5, ..Default::default() };
    let mut fcm = FcmWorld::new(short, 10).await;
    fcm.world.import_good(2_000).await;
    let id = fcm.world.broadcast("k").await.id;
    let counts = fcm.world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.retried), (2_000, 0), "{counts:?}");
    let stats = fcm.world.sim.stats().await;
    assert_eq!((stats.accepted, stats.refused), (2_000, 0), "{stats:?}");
    assert!(stats.fcm_tokens >= 2, "{stats:?}");
    fcm.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_there_is_no_access_token_deliveries_wait_and_none_is_dead() {
    let away = Behaviour { fcm_token_status: Some(503), ..Default::default() };
    let mut fcm = FcmWorld::new(away, 50).await;
    fcm.world.import_good(300).await;
    // Away, and then with a no.
    for (round, status) in [503, 400].into_iter().enumerate() {
        fcm.revoke().await;
        fcm.world.sim.behave(json!({ "fcm_token_status": status })).await;
        let (asked, since) = (fcm.world.sim.stats().await.fcm_tokens, std::time::Instant::now());
        let id = fcm.world.broadcast(&format!("k{round}")).await.id;
        let status = parked(&fcm.world, id).await;
        assert_eq!(status.providers[0].parked_code, "access_token");
        let wanted = asked + 3;
        until("probes ask again", async || fcm.world.sim.stats().await.fcm_tokens >= wanted).await;
        let asked = fcm.world.sim.stats().await.fcm_tokens - asked;
        assert!(asked <= since.elapsed().as_secs() + 2, "{asked} requests in {:?}", since.elapsed());
        fcm.world.sim.behave(json!({ "fcm_token_status": null })).await;
        let counts = fcm.world.finish(id).await.counts.unwrap();
        assert_eq!((counts.sent, counts.dead), (300, 0), "{counts:?}");
    }
    let stats = fcm.world.sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates), (600, 0));
    fcm.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrected_key_file_is_taken_up_without_a_restart() {
    let mut fcm = FcmWorld::without_sender(Behaviour::default()).await;
    let mut wrong = fcm.key_file.clone();
    wrong["project_id"] = "another-project".into();
    fcm.write_key_file(&wrong);
    fcm.add_sender(50).await;
    fcm.world.import_good(100).await;
    let id = fcm.world.broadcast("k").await.id;
    let status = parked(&fcm.world, id).await;
    assert_eq!(status.providers[0].parked_code, "PERMISSION_DENIED");
    fcm.write_key_file(&fcm.key_file);
    let counts = fcm.world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead), (100, 0), "{counts:?}");
    fcm.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_two_hours_behind_googles_costs_one_more_request() {
    let mut fcm = FcmWorld::new(Behaviour { clock_ahead_s: 7_200, ..Default::default() }, 50).await;
    fcm.world.import_good(100).await;
    let id = fcm.world.broadcast("k").await.id;
    let counts = fcm.world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.retried), (100, 0), "{counts:?}");
    assert_eq!(fcm.world.sim.stats().await.fcm_tokens, 2);
    fcm.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_the_data_that_fcm_keeps_for_itself_is_refused_at_the_door() {
    let mut fcm = FcmWorld::new(Behaviour::default(), 50).await;
    let data = [("google.sent".to_owned(), "x".to_owned())].into();
    let request = CreateBroadcastRequest { data, ..to_everyone("k") };
    let status = fcm.world.broadcasts.create_broadcast(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("google.sent"), "{status:?}");
    fcm.stop().await;
}
