//! The `apns` provider from its file to the last device: over TLS, at a simulator that is as strict as Apple says it is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bongsu_proto::v1::{
    CancelBroadcastRequest, DeadReason, DeliveryCounts, DeviceRegistration, DeviceState, GetStatusRequest,
    ListDeadLettersRequest, ListDevicesRequest,
};
use provider_sim::{APNS_KEY_ID, APNS_TEAM_ID, APNS_TOPIC, Behaviour};
use serde_json::json;

use crate::world::{World, quick, until};

/// A key that the simulator does not know.
const OTHER_KEY: &str = include_str!("../../../provider-sim/keys/apns-other-key-opens-nothing.p8");
/// Devices are retired and quarantined at once, and not only when it is known that the provider is to be believed.
const AT_ONCE: &str = "mass_invalidation = \"off\"";
/// Provider tokens change so often.
const TOKEN_STEP: Duration = Duration::from_secs(1_800);

/// The files that a sender reads, in a directory of their own.
struct Files(PathBuf);

impl Files {
    /// A provider `push` of the kind `apns`, which is the world's simulator; `more` goes into its table.
    async fn new(world: &World, more: &str) -> Self {
        let address = world.sim.address;
        let files = Self(std::env::temp_dir().join(format!("bongsu-apns-{address}")));
        std::fs::create_dir_all(&files.0).unwrap();
        let told = async |path: &str| {
            let answer = reqwest::get(format!("http://{address}{path}")).await.unwrap();
            answer.text().await.unwrap()
        };
        files.write("ca.pem", &told("/ca.pem").await);
        files.write("key.p8", &told("/apns/key.p8").await);
        let at = files.0.display();
        files.write(
            "providers.toml",
            &format!(
                "[providers.push]\nkind = \"apns\"\ncredentials = {{ file = \"{at}/key.p8\" }}\n\
                 key_id = \"{APNS_KEY_ID}\"\nteam_id = \"{APNS_TEAM_ID}\"\ntopic = \"{APNS_TOPIC}\"\n\
                 environment = \"sandbox\"\nendpoint = \"https://{address}\"\nca_file = \"{at}/ca.pem\"\n{more}\n"
            ),
        );
        files
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    fn configure(&self, config: &mut sender_svc::Config) {
        quick(config);
        config.webhooks.clear();
        config.providers = Some(self.0.join("providers.toml"));
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A world with a sender to APNs.
async fn world(behaviour: Behaviour, more: &str) -> (World, Files) {
    let mut world = World::new(behaviour).await;
    let files = Files::new(&world, more).await;
    world.add_sender(|config| files.configure(config)).await;
    (world, files)
}

/// Registers `n` devices of a kind, with the device tokens that stand for it.
async fn import(world: &mut World, kind: &str, n: usize) {
    let registrations = (0..n).map(|i| {
        let name = format!("{kind}-{i}");
        let token = name.bytes().map(|byte| format!("{byte:02x}")).collect();
        DeviceRegistration { user_id: name, provider: "push".into(), token, ..Default::default() }
    });
    world.import_registrations(registrations.collect()).await;
}

/// Sends to everyone, and waits for the end.
async fn send(world: &mut World, key: &str) -> (i64, DeliveryCounts) {
    let id = world.broadcast(key).await.id;
    (id, world.finish(id).await.counts.unwrap())
}

/// Which half hour it is.
fn token_step() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / TOKEN_STEP.as_secs()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_device_gets_the_outcome_of_apples_answer_and_only_unregistered_ones_are_retired() {
    let (mut world, _files) = world(
        Behaviour { retry_after_s: Some(0), ..Default::default() },
        &format!("never_park = true\n{AT_ONCE}"),
    )
    .await;
    for (kind, n) in [
        ("good", 200),
        ("expired", 20),
        ("rejected", 20),
        ("mismatched", 20),
        ("failing", 20),
        ("throttled", 20),
    ] {
        import(&mut world, kind, n).await;
    }
    let (id, counts) = send(&mut world, "first").await;
    assert_eq!((counts.total, counts.sent), (300, 220), "{counts:?}");
    assert_eq!(
        (counts.dead_unregistered, counts.dead_rejected, counts.dead_attempts_exhausted),
        (20, 40, 20),
        "{counts:?}"
    );
    let request = ListDeadLettersRequest { broadcast_id: id, page_size: 500, ..Default::default() };
    let letters = world.deliveries().await.list_dead_letters(request).await.unwrap().into_inner();
    let mut told: BTreeMap<_, usize> = BTreeMap::new();
    for letter in &letters.dead_letters {
        let kind = letter.user_id.split_once('-').unwrap().0;
        *told.entry((kind, letter.reason(), &*letter.code, letter.attempts)).or_default() += 1;
    }
    let expected = [
        ("expired", DeadReason::Unregistered, "Unregistered", 1),
        ("rejected", DeadReason::Rejected, "PayloadTooLarge", 1),
        ("mismatched", DeadReason::Rejected, "BadDeviceToken", 1),
        ("failing", DeadReason::AttemptsExhausted, "InternalServerError", 4),
    ];
    assert_eq!(told, expected.into_iter().map(|outcome| (outcome, 20)).collect());
    let stats = world.sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates, stats.refused), (220, 0, 0), "{stats:?}");
    assert_eq!((stats.throttled, stats.failing, stats.mismatched), (20, 80, 20), "{stats:?}");

    let (_, counts) = send(&mut world, "second").await;
    assert_eq!(
        counts.total, 260,
        "all but the unregistered ones and those of another environment: {counts:?}"
    );
    let state = DeviceState::Quarantined.into();
    let request = ListDevicesRequest { state, page_size: 100, ..Default::default() };
    let put_aside = world.devices.list_devices(request).await.unwrap().into_inner().devices;
    assert!(
        put_aside.len() == 20 && put_aside.iter().all(|d| d.quarantine_code == "BadDeviceToken"),
        "{put_aside:?}"
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_registered_after_apples_timestamp_is_not_retired() {
    let (mut world, _files) =
        world(Behaviour { unregistered_ago_s: 3_600, ..Default::default() }, AT_ONCE).await;
    import(&mut world, "good", 1).await;
    import(&mut world, "expired", 5).await;
    let (_, counts) = send(&mut world, "an hour ago").await;
    assert_eq!((counts.total, counts.dead_unregistered), (6, 5), "{counts:?}");
    world.sim.behave(json!({"unregistered_ago_s": 0})).await;
    let (_, counts) = send(&mut world, "now").await;
    assert_eq!((counts.total, counts.dead_unregistered), (6, 5), "they were still there: {counts:?}");
    let (_, counts) = send(&mut world, "later").await;
    assert_eq!((counts.total, counts.sent), (1, 1), "and are no longer: {counts:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_every_token_is_of_another_environment_the_provider_is_parked_and_no_device_is_lost() {
    let (mut world, _files) = world(Behaviour::default(), "").await;
    import(&mut world, "mismatched", 400).await;
    let id = world.broadcast("wrong").await.id;
    until("it is parked", async || {
        let request = GetStatusRequest { broadcast_id: id };
        let status = world.deliveries().await.get_status(request).await.unwrap().into_inner().status.unwrap();
        status.providers.iter().any(|provider| provider.parked_code == "mass_invalidation")
    })
    .await;
    world.broadcasts.cancel_broadcast(CancelBroadcastRequest { broadcast_id: id }).await.unwrap();
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.total, counts.sent, counts.dead_unregistered), (400, 0, 0), "{counts:?}");
    let request =
        ListDevicesRequest { state: DeviceState::Live.into(), page_size: 500, ..Default::default() };
    let live = world.devices.list_devices(request).await.unwrap().into_inner().devices;
    assert_eq!(live.len(), 400);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_senders_with_one_key_use_one_token() {
    let mut world = World::new(Behaviour { latency_ms: 20, ..Default::default() }).await;
    let files = Files::new(&world, "in_flight = 50").await;
    let before = world.sim.stats().await.connections_total;
    let step = token_step();
    for _ in 0..2 {
        world.add_sender(|config| files.configure(config)).await;
    }
    import(&mut world, "good", 4_000).await;
    let (_, counts) = send(&mut world, "k").await;
    assert_eq!((counts.sent, counts.dead, counts.retried), (4_000, 0, 0), "{counts:?}");
    let stats = world.sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates), (4_000, 0), "{stats:?}");
    assert!(stats.connections_total >= before + 2, "both called: {stats:?}");
    // Began just before the half hour, they hear once that the next token comes too soon, and keep the one they have.
    if token_step() == step {
        assert_eq!(stats.refused, 0, "{stats:?}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_hours_off_costs_no_delivery() {
    for clock_ahead_s in [-7_200, 7_200] {
        let (mut world, _files) = world(Behaviour { clock_ahead_s, ..Default::default() }, "").await;
        import(&mut world, "good", 200).await;
        let (_, counts) = send(&mut world, "k").await;
        assert_eq!((counts.sent, counts.dead, counts.retried), (200, 0, 0), "{clock_ahead_s}: {counts:?}");
        let stats = world.sim.stats().await;
        assert!(stats.refused > 0 && stats.refused <= 200, "{clock_ahead_s}: {stats:?}");
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_go_away_and_carry_few_calls_cost_no_delivery() {
    let behaviour = Behaviour { goaway_after: 50, max_streams: 10, latency_ms: 10, ..Default::default() };
    let (mut world, _files) = world(behaviour, "in_flight = 190").await;
    import(&mut world, "good", 1_000).await;
    let (_, counts) = send(&mut world, "k").await;
    assert_eq!((counts.sent, counts.dead), (1_000, 0), "{counts:?}");
    let stats = world.sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates, stats.calls), (1_000, 0, 1_000), "{stats:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_not_believed_parks_the_provider_and_the_right_one_is_taken_up_without_a_restart() {
    let mut world = World::new(Behaviour::default()).await;
    let files = Files::new(&world, "").await;
    let right = std::fs::read_to_string(files.0.join("key.p8")).unwrap();
    files.write("key.p8", OTHER_KEY);
    world.add_sender(|config| files.configure(config)).await;
    import(&mut world, "good", 300).await;
    let id = world.broadcast("k").await.id;
    until("it was refused", async || world.sim.stats().await.refused >= 20).await;
    files.write("key.p8", &right);
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead), (300, 0), "{counts:?}");
    let stats = world.sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates), (300, 0), "{stats:?}");
    world.stop().await;
}
