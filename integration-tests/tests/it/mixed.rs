//! Four kinds of provider side by side, each at a simulator of its own.

use std::path::PathBuf;

use bongsu_proto::v1::{
    BroadcastStatus, CreateBroadcastRequest, DeliveryCounts, DeviceRegistration, GetStatusRequest,
};
use provider_sim::Behaviour;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{Sim, World, quick, to_everyone, until};

const NAMES: [&str; 4] = ["hook", "android", "ios", "web"];
/// Of nobody: made for these tests.
const VAPID_KEY: &str = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw";

struct Mixed {
    world: World,
    /// By the name of their provider.
    sims: Vec<(&'static str, Sim)>,
    _files: TempDir,
}

impl Mixed {
    /// All four with so many devices at each, of which in every hundred one is unregistered and one rejected.
    async fn new(behaviour: Behaviour, each: usize) -> Self {
        let mixed = Self::with(&NAMES, behaviour).await;
        // Opening so many ciphers is not what is tested here, and slow without optimisation.
        mixed.sim("web").behave(json!({ "lenient": true })).await;
        let names = (0..each).map(|n| match n % 100 {
            0 => format!("expired-{n}"),
            1 => format!("rejected-{n}"),
            _ => format!("good-{n}"),
        });
        mixed.import(names).await
    }

    /// Some of the providers, and no devices.
    async fn with(names: &[&'static str], behaviour: Behaviour) -> Self {
        let mut world = World::new(Behaviour::default()).await;
        let mut sims = vec![];
        for name in names {
            sims.push((*name, Sim::start(behaviour.clone()).await));
        }
        let files = tempfile::tempdir().unwrap();
        let providers = providers_file(&sims, &files).await;
        world
            .add_sender(|config| {
                quick(config);
                config.providers = Some(providers);
                config.webhooks.clear();
            })
            .await;
        Self { world, sims, _files: files }
    }

    fn sim(&self, name: &str) -> &Sim {
        &self.sims.iter().find(|(other, _)| *other == name).unwrap().1
    }

    /// A device of each name at each provider.
    async fn import(mut self, names: impl Iterator<Item = String>) -> Self {
        let mut keys = Value::Null;
        for (_, web) in self.sims.iter().filter(|(name, _)| *name == "web") {
            // The browser of that name; what others are sent cannot be opened, and need not be.
            keys = web.get_json("/webpush/subscription/any").await["keys"].take();
        }
        let mut registrations = vec![];
        for device in names {
            for (provider, sim) in &self.sims {
                let token = match *provider {
                    "ios" => {
                        format!("{:0<64}", device.bytes().map(|b| format!("{b:02x}")).collect::<String>())
                    }
                    "web" => {
                        let endpoint = format!("https://{}/webpush/{device}", sim.address);
                        json!({ "endpoint": endpoint, "keys": keys }).to_string()
                    }
                    _ => device.clone(),
                };
                registrations.push(DeviceRegistration {
                    user_id: device.clone(),
                    provider: (*provider).into(),
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
        for (name, sim) in &self.sims {
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

/// A table for each, and what it names.
async fn providers_file(sims: &[(&str, Sim)], files: &TempDir) -> PathBuf {
    let write = |name: &str, text: String| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let mut text = String::new();
    for (name, sim) in sims {
        let address = sim.address;
        let own = match *name {
            "hook" => format!("kind = \"webhook\"\nurl = \"h2c://{address}/push\"\n"),
            "android" => {
                let account = write("account.json", sim.get_text("/fcm/service-account.json").await);
                format!(
                    "kind = \"fcm\"\ncredentials = {{ file = {account:?} }}\nendpoint = \"https://{address}\"\n\
                     token_uri = \"https://{address}/token\"\n"
                )
            }
            "ios" => {
                let key = write("key.p8", sim.get_text("/apns/key.p8").await);
                format!(
                    "kind = \"apns\"\ncredentials = {{ file = {key:?} }}\nkey_id = \"TESTKEY000\"\n\
                     team_id = \"TESTTEAM00\"\ntopic = \"example.bongsu.app\"\nenvironment = \"production\"\nendpoint = \"https://{address}\"\n"
                )
            }
            _ => {
                let vapid = write("vapid", VAPID_KEY.into());
                format!(
                    "kind = \"webpush\"\ncredentials = {{ file = {vapid:?} }}\nsubject = \"mailto:ops@example.com\"\n\
                     allow_private_addresses = true\n"
                )
            }
        };
        let ca = write(&format!("{name}.pem"), sim.get_text("/ca.pem").await);
        let trust = if *name == "hook" { String::new() } else { format!("ca_file = {ca:?}\n") };
        text += &format!("[providers.{name}]\n{own}{trust}retry = {{ floor_ms = 0, initial_ms = 20 }}\n");
    }
    write("providers.toml", text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broadcast_by_four_kinds_of_provider_with_faults_in_each_balances_its_books() {
    let behaviour = Behaviour { transient: 0.03, goaway_after: 3_000, seed: 5, ..Default::default() };
    let mut mixed = Mixed::new(behaviour, 10_000).await;
    let id = mixed.world.broadcast("mixed").await.id;
    let status = mixed.world.finish(id).await;
    mixed.check_books(&status, 10_000).await;
    mixed.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_outage_of_one_provider_leaves_the_others_alone_and_costs_its_own_nothing() {
    const EACH: i64 = 2_000;
    let mut mixed = Mixed::new(Behaviour::default(), EACH as usize).await;
    mixed.sim("ios").behave(json!({ "outage": true })).await;
    let id = mixed.world.create(to_everyone("outage")).await.id;
    for (name, sim) in mixed.sims.iter().filter(|(name, _)| *name != "ios") {
        let stats = sim.accepted((EACH - EACH / 50) as u64).await;
        assert_eq!(stats.duplicates, 0, "{name}");
    }
    until("parked", async || {
        let status = mixed.status(id).await;
        status.providers.iter().any(|p| p.provider == "ios" && p.parked_since.is_some())
    })
    .await;
    assert_eq!(of(&mixed.status(id).await, "ios").pending, EACH);
    mixed.sim("ios").behave(json!({ "outage": false })).await;
    let status = mixed.world.finish(id).await;
    mixed.check_books(&status, EACH).await;
    mixed.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_at_the_limit_of_each_kind_is_sent_and_one_byte_more_is_refused_with_both_counts() {
    for (name, limit) in NAMES.into_iter().zip([65_536, 4_096, 4_096, 3_993]) {
        let mut one = Mixed::with(&[name], Behaviour::default()).await;
        let names = if name == "web" { "any" } else { "good" };
        one = one.import([names.to_owned()].into_iter()).await;
        let request = |filled: usize| CreateBroadcastRequest {
            title: "봉수 🔥 \"인용\"\n".into(),
            body: "불이 올랐다 \\ \t".into(),
            data: [("채움".to_owned(), "참".repeat(100) + &"v".repeat(filled))].into(),
            ..to_everyone("limit")
        };
        let refused = async |one: &mut Mixed, filled| {
            let answer = one.world.broadcasts.create_broadcast(request(filled)).await;
            answer.expect_err(name).message().to_owned()
        };
        let told = refused(&mut one, 70_000).await;
        let bytes: usize =
            told.split("notification of ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let room = 70_000 - (bytes - limit);
        let told = refused(&mut one, room + 1).await;
        assert!(
            told.contains(&(limit + 1).to_string()) && told.contains(&limit.to_string()),
            "{name}: {told}"
        );
        let id = one.world.create(request(room)).await.id;
        let counts = one.world.finish(id).await.counts.unwrap();
        assert_eq!((counts.total, counts.sent), (1, 1), "{name}: {:?}", one.sim(name).stats().await);
        one.world.stop().await;
    }
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
