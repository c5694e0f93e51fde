//! Four kinds of provider side by side, each at a simulator of its own.

use std::path::PathBuf;

use bongsu_proto::v1::{BroadcastStatus, DeliveryCounts, DeviceRegistration, GetStatusRequest};
use provider_sim::Behaviour;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{Sim, World, quick, to_everyone, until};

const NAMES: [&str; 4] = ["hook", "android", "ios", "web"];
/// Of nobody: made for these tests.
const VAPID_KEY: &str = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw";

struct Four {
    world: World,
    /// In the order of [`NAMES`].
    sims: [Sim; 4],
    _files: TempDir,
}

impl Four {
    /// With so many devices at each, of which in every hundred one is unregistered and one rejected.
    async fn new(behaviour: Behaviour, each: usize) -> Self {
        let mut world = World::new(Behaviour::default()).await;
        // Opening so many ciphers is not what is tested here, and slow without optimisation.
        let web = Behaviour { lenient: true, ..behaviour.clone() };
        let behaviours = [behaviour.clone(), behaviour.clone(), behaviour, web];
        let mut sims = vec![];
        for behaviour in behaviours {
            sims.push(Sim::start(behaviour).await);
        }
        let sims: [Sim; 4] = sims.try_into().ok().unwrap();
        let files = tempfile::tempdir().unwrap();
        let providers = providers_file(&sims, &files).await;
        world
            .add_sender(|config| {
                quick(config);
                config.providers = Some(providers);
                config.webhooks.clear();
            })
            .await;
        let four = Self { world, sims, _files: files };
        four.import(each).await
    }

    async fn import(mut self, each: usize) -> Self {
        let web = self.sims[3].get_json("/webpush/subscription/any").await;
        let mut registrations = vec![];
        for n in 0..each {
            let name = match n % 100 {
                0 => format!("expired-{n}"),
                1 => format!("rejected-{n}"),
                _ => format!("good-{n}"),
            };
            let endpoint = format!("https://{}/webpush/{name}", self.sims[3].address);
            let tokens = [
                name.clone(),
                name.clone(),
                name.bytes().map(|b| format!("{b:02x}")).collect(),
                json!({ "endpoint": endpoint, "keys": web["keys"] }).to_string(),
            ];
            for (provider, token) in NAMES.into_iter().zip(tokens) {
                registrations.push(DeviceRegistration {
                    user_id: format!("user-{n}"),
                    provider: provider.into(),
                    token,
                    ..Default::default()
                });
            }
        }
        self.world.import_registrations(registrations).await;
        self
    }

    async fn status(&self, id: i64) -> BroadcastStatus {
        let mut deliveries = self.world.deliveries().await;
        deliveries
            .get_status(GetStatusRequest { broadcast_id: id })
            .await
            .unwrap()
            .into_inner()
            .status
            .unwrap()
    }

    /// What of it is whose, and that the simulators say the same.
    async fn check_books(&self, status: &BroadcastStatus, each: i64) {
        for (name, sim) in NAMES.into_iter().zip(&self.sims) {
            let counts = of(status, name);
            let stats = sim.stats().await;
            let few = each / 100;
            assert_eq!((counts.total, counts.pending), (each, 0), "{name}: {counts:?}");
            assert_eq!((counts.dead_unregistered, counts.dead_rejected), (few, few), "{name}: {counts:?}");
            assert_eq!(counts.sent + counts.dead_attempts_exhausted, each - 2 * few, "{name}: {counts:?}");
            assert_eq!((stats.accepted as i64, stats.duplicates), (counts.sent, 0), "{name}: {stats:?}");
            assert_eq!(
                (stats.refused, stats.unregistered, stats.rejected),
                (0, few as u64, few as u64),
                "{name}"
            );
        }
    }
}

fn of(status: &BroadcastStatus, provider: &str) -> DeliveryCounts {
    status.providers.iter().find(|p| p.provider == provider).and_then(|p| p.counts).unwrap()
}

async fn providers_file(sims: &[Sim; 4], files: &TempDir) -> PathBuf {
    let write = |name: &str, text: String| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let [hook, android, ios, web] = sims;
    let account = write("account.json", android.get_text("/fcm/service-account.json").await);
    let key = write("key.p8", ios.get_text("/apns/key.p8").await);
    let vapid = write("vapid", VAPID_KEY.into());
    let mut text = String::new();
    for (name, sim, own) in [
        ("hook", hook, format!("kind = \"webhook\"\nurl = \"h2c://{}/push\"\n", hook.address)),
        (
            "android",
            android,
            format!(
                "kind = \"fcm\"\ncredentials = {{ file = {account:?} }}\nendpoint = \"https://{0}\"\n\
                 token_uri = \"https://{0}/token\"\n",
                android.address
            ),
        ),
        (
            "ios",
            ios,
            format!(
                "kind = \"apns\"\ncredentials = {{ file = {key:?} }}\nkey_id = \"TESTKEY000\"\n\
                 team_id = \"TESTTEAM00\"\ntopic = \"example.bongsu.app\"\nendpoint = \"https://{}\"\n",
                ios.address
            ),
        ),
        (
            "web",
            web,
            format!(
                "kind = \"webpush\"\ncredentials = {{ file = {vapid:?} }}\nsubject = \"mailto:ops@example.com\"\n\
                 allow_private_addresses = true\n"
            ),
        ),
    ] {
        let ca = write(&format!("{name}.pem"), sim.get_text("/ca.pem").await);
        let trust = if name == "hook" { String::new() } else { format!("ca_file = {ca:?}\n") };
        text += &format!("[providers.{name}]\n{own}{trust}retry = {{ floor_ms = 0, initial_ms = 20 }}\n");
    }
    write("providers.toml", text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broadcast_by_four_kinds_of_provider_with_faults_in_each_balances_its_books() {
    let behaviour = Behaviour { transient: 0.03, goaway_after: 3_000, seed: 5, ..Default::default() };
    let mut four = Four::new(behaviour, 10_000).await;
    let id = four.world.broadcast("mixed").await.id;
    let status = four.world.finish(id).await;
    four.check_books(&status, 10_000).await;
    four.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_outage_of_one_provider_leaves_the_others_alone_and_costs_its_own_nothing() {
    const EACH: i64 = 2_000;
    let mut four = Four::new(Behaviour::default(), EACH as usize).await;
    let ios = NAMES.iter().position(|name| *name == "ios").unwrap();
    four.sims[ios].behave(json!({ "outage": true })).await;
    let id = four.world.create(to_everyone("outage")).await.id;
    for (n, sim) in four.sims.iter().enumerate().filter(|(n, _)| *n != ios) {
        let stats = sim.accepted((EACH - EACH / 50) as u64).await;
        assert_eq!(stats.duplicates, 0, "{}", NAMES[n]);
    }
    until("parked", async || {
        let status = four.status(id).await;
        status.providers.iter().any(|p| p.provider == "ios" && p.parked_since.is_some())
    })
    .await;
    assert_eq!(of(&four.status(id).await, "ios").pending, EACH);
    four.sims[ios].behave(json!({ "outage": false })).await;
    let status = four.world.finish(id).await;
    four.check_books(&status, EACH).await;
    four.world.stop().await;
}

/// What the tests above read of a simulator.
impl Sim {
    async fn get_text(&self, path: &str) -> String {
        let answer = reqwest::get(format!("http://{}{path}", self.address)).await.unwrap();
        answer.error_for_status().unwrap().text().await.unwrap()
    }

    async fn get_json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get_text(path).await).unwrap()
    }
}
