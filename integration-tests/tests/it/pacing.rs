//! A provider's rate limit: in no second do all senders together make more calls than it allows, and where there is enough to
//! do, no fewer than 95 % of that.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use bongsu_proto::v1::{UserAudience, audience};

use crate::processes::{Processes, metric_sum, sender};
use crate::world::{registration, to, to_everyone};

const SECOND_US: u64 = 1_000_000;

/// A simulator, an intake, and a provider "paced" that may be called so often.
struct Paced {
    world: Processes,
    rate: u64,
    file: tempfile::TempDir,
}

impl Paced {
    async fn start(rate: u64) -> Self {
        let world = Processes::start(&["--latency-ms", "20", "--jitter-ms", "10"]).await;
        let file = tempfile::tempdir().unwrap();
        let url = world.stack.push_url();
        let text =
            format!("[providers.paced]\nkind = \"webhook\"\nurl = \"{url}\"\nrate_per_second = {rate}\n");
        std::fs::write(file.path().join("providers.toml"), text).unwrap();
        Self { world, rate, file }
    }

    async fn sender(&self) -> bongsu_cli::stack::Process {
        let path: PathBuf = self.file.path().join("providers.toml");
        self.world.stack.spawn_sender(sender(&["--providers", path.to_str().unwrap()])).await.unwrap()
    }

    async fn import(&mut self, n: usize) {
        let registrations = (0..n).map(|i| {
            let mut device = registration(&format!("good-{i}"));
            device.provider = "paced".into();
            device
        });
        self.world.import(registrations.collect()).await;
    }

    /// When each delivery was accepted, in microseconds, and its key; in this order.
    async fn acceptances(&self) -> Vec<(u64, String)> {
        let mut all: Vec<_> = self
            .world
            .deliveries()
            .await
            .into_iter()
            .filter_map(|record| Some((record.first_accepted_unix_us?, record.key)))
            .collect();
        all.sort_unstable();
        all
    }
}

/// A sender begins gently; before that it does not use a high rate.
const BEGINNING_US: u64 = 1_500_000;

/// The most acceptances in any second, and the share of the rate that was used from the beginning's end to the last.
pub fn measured(acceptances: &[(u64, String)], rate: u64) -> (usize, f64) {
    let mut first = 0;
    let mut most = 0;
    for (n, (at, _)) in acceptances.iter().enumerate() {
        while at - acceptances[first].0 >= SECOND_US {
            first += 1;
        }
        most = most.max(n - first + 1);
    }
    let begun = acceptances.partition_point(|(at, _)| *at < acceptances[0].0 + BEGINNING_US);
    let rest = &acceptances[begun..];
    let took = (rest[rest.len() - 1].0 - rest[0].0) as f64 / SECOND_US as f64;
    (most, (rest.len() - 1) as f64 / took / rate as f64)
}

async fn two_senders_keep(rate: u64, devices: usize) {
    let mut paced = Paced::start(rate).await;
    let senders = vec![paced.sender().await, paced.sender().await];
    paced.import(devices).await;
    let id = paced.world.create(to_everyone("k")).await;
    assert_eq!(paced.world.finish(id).await.counts.unwrap().sent, devices as i64);
    let (most, used) = measured(&paced.acceptances().await, paced.rate);
    eprintln!("{rate}/s: at most {most} in a second, {:.1} % used", used * 100.0);
    for sender in &senders {
        let metrics = paced.world.metrics(sender).await;
        let [reserved, used, forfeited] = ["reserved", "used", "forfeited"].map(|slots| {
            metric_sum(&metrics, "bongsu_sender_pace_slots_total", &format!("slots=\"{slots}\""))
        });
        eprintln!("one sender: {reserved} reserved, {used} used, {forfeited} forfeited");
        assert!(used + forfeited <= reserved && used > 0, "{reserved} {used} {forfeited}");
    }
    assert!(most as u64 <= rate, "{most} in a second");
    assert!(used >= 0.95, "{used}");
    paced.world.stack.stop(senders).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_senders_never_exceed_a_rate_in_any_second_and_use_it() {
    two_senders_keep(500, 3_000).await;
}

/// For an optimised build: `cargo test --release … -- --ignored`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine that has little else to do"]
async fn two_senders_keep_a_rate_of_many_thousands() {
    let rate = std::env::var("BONGSU_TEST_RATE").map_or(10_000, |rate| rate.parse().unwrap());
    two_senders_keep(rate, 6 * rate as usize).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_killed_in_the_middle_leaves_the_rate_to_the_other() {
    let mut paced = Paced::start(500).await;
    let (mut victim, survivor) = (paced.sender().await, paced.sender().await);
    paced.import(3_000).await;
    let id = paced.world.create(to_everyone("k")).await;
    paced.world.accepted(1_000).await;
    victim.kill9().await.unwrap();
    assert_eq!(paced.world.finish(id).await.counts.unwrap().sent, 3_000);
    let (most, used) = measured(&paced.acceptances().await, 500);
    eprintln!("one killed: at most {most} in a second, {:.1} % used", used * 100.0);
    assert!(most <= 500, "{most} in a second");
    paced.world.stack.stop(vec![survivor]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_urgent_broadcast_beside_a_huge_one_is_called_after_few_others_however_low_the_rate() {
    // A batch is 500 deliveries: half a second, and five.
    for rate in [1_000, 100] {
        let mut paced = Paced::start(rate).await;
        let only = paced.sender().await;
        paced.import(10_000).await;
        paced.world.create(to_everyone("huge")).await;
        paced.world.accepted(50).await;
        let user = audience::Kind::Users(UserAudience { user_ids: vec!["good-1".into()] });
        let urgent = paced.world.create(to("urgent", user)).await;
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
        paced.world.finish(urgent).await;
        let all = paced.acceptances().await;
        let prefix = format!("{urgent}-");
        let urgent = all.iter().find(|(_, key)| key.starts_with(&prefix)).unwrap().0;
        let before = all.iter().filter(|(at, _)| (created..urgent).contains(at)).count() as u64;
        eprintln!(
            "{rate}/s: {before} calls before the urgent one, {} ms",
            urgent.saturating_sub(created) / 1_000
        );
        assert!(before <= rate * 2 / 5, "{before} calls of the huge one went before at {rate}/s");
        paced.world.stack.stop(vec![only]).await;
    }
}
