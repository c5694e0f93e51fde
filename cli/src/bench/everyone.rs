//! One broadcast to every device, from CreateBroadcast to the last outcome, measured.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use bongsu_proto::v1;
use bongsu_store::Load;
use provider_sim::Stats;

use super::audience;
use super::kernel::{Watched, peak_memory_bytes};
use super::observe::Observer;
use super::provider::metrics;
use super::quantile::Histogram;
use super::report::Figures;
use super::steady::{Sample, steady};
use super::world::{Accepted, World};
use crate::stack::Process;

/// Sessions report what they did about once a second: after so long everything of a run is there.
const STATISTICS_LAG: std::time::Duration = std::time::Duration::from_millis(1_500);
/// What the senders measure of themselves: name, and name and label here.
const SENDER_TIMES: [(&str, &str, &str); 3] = [
    ("bongsu_sender_claim_seconds", "claim", "claim, ms"),
    ("bongsu_sender_read_seconds", "read", "read, ms"),
    ("bongsu_sender_flush_seconds", "flush", "flush, ms"),
];

/// Everything that was seen of one run.
#[derive(Debug)]
pub struct Seen {
    pub accepted: Accepted,
    pub broadcast: v1::Broadcast,
    pub stats: Stats,
    samples: Vec<Sample>,
    watched: Vec<Watched>,
    load_before: Load,
    load_after: Load,
    sender_metrics: Vec<String>,
}

/// Sends to everyone, with fresh senders, and measures.
pub async fn run(world: &mut World) -> anyhow::Result<Figures> {
    world.settle().await?;
    let senders = world.start_senders().await?;
    let seen = send(world, &senders, async { Ok(()) }).await?;
    let figures = seen.figures(world.devices)?;
    World::stop_senders(senders).await;
    Ok(figures)
}

/// Sends to everyone; `meanwhile` begins with the broadcast, which is over when both are.
pub async fn send(
    world: &World,
    senders: &[Process],
    meanwhile: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<Seen> {
    let mut watched = Vec::new();
    for (sender, n) in senders.iter().zip(1..) {
        let pid = sender.pid().with_context(|| format!("{} is gone", sender.name()))?;
        // Not by the number of the process, which grows from run to run: their figures belong together.
        watched.push(Watched { name: format!("sender-{n}"), pid, family: false });
    }
    watched.extend(world.watched()?);
    let load_before = world.store.database_load().await?;
    let observer = Observer {
        provider: &world.provider,
        store: Some(&world.store),
        watched: watched.clone(),
        done: |stats| stats.accepted,
    };
    let work = async {
        let accepted = world.create(audience::everyone()).await?;
        let (broadcast, ()) = tokio::try_join!(world.ended(accepted.id), meanwhile)?;
        Ok((accepted, broadcast))
    };
    let ((accepted, broadcast), samples) = observer.during(work).await?;
    let stats = world.provider.stats().await?;
    tokio::time::sleep(STATISTICS_LAG).await;
    let load_after = world.store.database_load().await?;
    let mut sender_metrics = Vec::new();
    for sender in senders {
        sender_metrics.push(metrics(sender.admin().context("a sender has an admin port")?).await?);
    }
    Ok(Seen { accepted, broadcast, stats, samples, watched, load_before, load_after, sender_metrics })
}

impl Seen {
    /// The figures of a run in which nothing else was sent.
    pub fn figures(&self, devices: u64) -> anyhow::Result<Figures> {
        let counts = self.broadcast.counts.unwrap_or_default();
        self.check(devices, &counts)?;
        let total_s = self.total_s()?;
        let mut figures = Figures::default();
        figures.put("end_to_end_per_s", "end to end, per s", devices as f64 / total_s);
        self.put_steady(&mut figures, devices);
        figures.put("total_s", "from answer to completed, s", total_s);
        figures.put("accept_ms", "accept, ms", self.accepted.took.as_secs_f64() * 1e3);
        let first = self.stats.first_accepted_unix_ms.map(|at| at as f64 - unix_ms(self.accepted.at));
        figures.put("first_accepted_ms", "from answer to first acceptance, ms", first);
        self.put_database(&mut figures);
        self.put_sender_times(&mut figures);
        self.put_peaks(&mut figures)?;
        figures.count("calls", "calls at the provider", self.stats.calls);
        figures.count("accepted", "accepted by the provider", self.stats.accepted);
        figures.count("duplicates", "duplicates", self.stats.duplicates);
        figures.count("sent", "deliveries sent", counts.sent);
        figures.count("dead", "deliveries dead", counts.dead);
        figures.count("lost", "deliveries lost", self.lost(devices, &counts));
        Ok(figures)
    }

    /// Rates mean nothing where the books do not balance.
    fn check(&self, devices: u64, counts: &v1::DeliveryCounts) -> anyhow::Result<()> {
        ensure!(counts.total.unsigned_abs() == devices, "{} deliveries for {devices} devices", counts.total);
        ensure!(counts.sent + counts.dead == counts.total, "sent and dead are not all: {counts:?}");
        let lost = self.lost(devices, counts);
        ensure!(lost == 0, "{lost} deliveries are neither accepted nor dead: {counts:?}");
        Ok(())
    }

    fn lost(&self, devices: u64, counts: &v1::DeliveryCounts) -> u64 {
        devices.saturating_sub(self.stats.accepted + counts.dead.unsigned_abs())
    }

    /// From the answer to CreateBroadcast until the broadcast was completed, both by the clock of this machine.
    pub fn total_s(&self) -> anyhow::Result<f64> {
        let settled = self.broadcast.settle_time.context("it has ended without a time")?;
        let settled_ms = settled.seconds as f64 * 1e3 + f64::from(settled.nanos) / 1e6;
        Ok((settled_ms - unix_ms(self.accepted.at)) / 1e3)
    }

    fn put_steady(&self, figures: &mut Figures, devices: u64) {
        let window = steady(&self.samples, devices);
        let senders = self.sender_metrics.len();
        let each = |nth| window.as_ref().map(|window| window.cpu_us_each(nth));
        figures.put("steady_per_s", "steady rate, per s", window.as_ref().map(|window| window.per_second()));
        let sum = (0..senders).map(each).sum::<Option<f64>>();
        figures.put("sender_cpu_us", "CPU µs each: senders, or the loop", sum);
        for (nth, watched) in self.watched.iter().enumerate() {
            if nth < senders && senders == 1 {
                continue; // it is the sum
            }
            let name = watched.name.replace('-', "_");
            figures.put(format!("{name}_cpu_us"), format!("CPU µs each: {}", watched.name), each(nth));
        }
        let wal = window.as_ref().map(|window| window.wal_bytes_each());
        figures.put("wal_bytes", "WAL bytes each", wal);
    }

    fn put_database(&self, figures: &mut Figures) {
        let (before, after) = (self.load_before, self.load_after);
        let images = after.full_page_images - before.full_page_images;
        let per_thousand = images as f64 * 1e3 / self.stats.accepted as f64;
        figures.put("full_page_images_per_1000", "WAL full-page images per 1,000", per_thousand);
        let updates = (after.updates - before.updates) as f64;
        let hot = (after.hot_updates - before.hot_updates) as f64;
        figures.put("hot_percent", "updates of deliveries in place (HOT), %", hot / updates * 100.0);
    }

    fn put_sender_times(&self, figures: &mut Figures) {
        for (metric, name, label) in SENDER_TIMES {
            let mut all = Histogram::default();
            self.sender_metrics.iter().for_each(|text| all.add(&Histogram::read(text, metric)));
            for (share, word, percent) in [(0.5, "p50", "median"), (0.99, "p99", "99 %")] {
                let millis = all.quantile(share).map(|seconds| seconds * 1e3);
                figures.put(format!("{name}_{word}_ms"), format!("{label}: {percent}"), millis);
            }
        }
    }

    fn put_peaks(&self, figures: &mut Figures) -> anyhow::Result<()> {
        // Memory of Postgres is shared between its processes: a sum would count it many times.
        for watched in self.watched.iter().filter(|watched| !watched.family) {
            let name = watched.name.replace('-', "_");
            let peak = peak_memory_bytes(watched.pid)? as f64 / 1e6;
            figures.put(format!("{name}_peak_mb"), format!("peak memory, MB: {}", watched.name), peak);
        }
        Ok(())
    }
}

pub fn unix_ms(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64() * 1e3)
}
