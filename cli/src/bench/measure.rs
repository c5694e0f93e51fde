//! Measures one run: fresh senders, some work, and everything that is counted meanwhile and afterwards.

use anyhow::Context as _;
use bongsu_store::Load;
use provider_sim::Stats;

use super::kernel::{Watched, peak_memory_bytes};
use super::observe::Observer;
use super::provider::{counter, metrics};
use super::quantile::Histogram;
use super::report::Figures;
use super::steady::{Sample, steady, whole};
use super::world::{SIMULATOR, World};
use crate::stack::Process;

/// What the senders measure of themselves: the metric, and its name and label here.
const SENDER_TIMES: [(&str, &str, &str); 3] = [
    ("bongsu_sender_claim_seconds", "claim", "claim, ms"),
    ("bongsu_sender_read_seconds", "read", "read, ms"),
    ("bongsu_sender_flush_seconds", "flush", "flush, ms"),
];

/// How many calls a sender has made, by what the answer meant.
pub const SENDER_CALLS: &str = "bongsu_sender_calls_total";

/// Everything that was counted of one run.
#[derive(Debug)]
pub struct Measured<T> {
    /// What the work came to.
    pub outcome: T,
    /// What the provider counted.
    pub stats: Stats,
    /// What was seen about every 100 ms.
    pub samples: Vec<Sample>,
    /// The senders, then the others.
    watched: Vec<Watched>,
    senders: usize,
    /// By process, in the order of `watched`; none of Postgres, whose processes share what would be counted many times.
    peak_bytes: Vec<Option<u64>>,
    sender_metrics: Vec<String>,
    load_before: Load,
    load_after: Load,
}

/// Does the work, with fresh senders on a server that has nothing left to do.
pub async fn measure<T>(
    world: &mut World,
    work: impl AsyncFnOnce(&World) -> anyhow::Result<T>,
) -> anyhow::Result<Measured<T>> {
    world.settle().await?;
    let load_before = world.store.database_load().await?;
    let senders = world.start_senders().await?;
    let watched = watched(world, &senders)?;
    let observer = Observer {
        provider: &world.provider,
        store: Some(&world.store),
        watched: watched.clone(),
        done: |stats| stats.accepted,
    };
    let (outcome, samples) = observer.during(work(world)).await?;
    let stats = world.provider.stats().await?;
    let peak = |watched: &Watched| (!watched.family).then(|| peak_memory_bytes(watched.pid)).transpose();
    let peak_bytes = watched.iter().map(peak).collect::<anyhow::Result<_>>()?;
    let mut sender_metrics = Vec::new();
    for sender in &senders {
        sender_metrics.push(metrics(sender.admin().context("a sender has an admin port")?).await?);
    }
    let senders_count = senders.len();
    // An idle session reports what it did only seconds later, but one that ends does at once.
    World::stop_processes(senders).await;
    let load_after = world.store.database_load().await?;
    Ok(Measured {
        outcome,
        stats,
        samples,
        watched,
        senders: senders_count,
        peak_bytes,
        sender_metrics,
        load_before,
        load_after,
    })
}

fn watched(world: &World, senders: &[Process]) -> anyhow::Result<Vec<Watched>> {
    let mut watched = Vec::new();
    for (sender, n) in senders.iter().zip(1..) {
        let pid = sender.pid().with_context(|| format!("{} is gone", sender.name()))?;
        // Not by the number of the process, which grows from run to run: their figures belong together.
        watched.push(Watched { name: format!("sender-{n}"), pid, family: false });
    }
    watched.extend(world.watched()?);
    Ok(watched)
}

impl<T> Measured<T> {
    /// The rate between a tenth and nine tenths of so many acceptances, and what each of them took then.
    pub fn put_steady(&self, figures: &mut Figures, acceptances: u64) {
        let window = steady(&self.samples, acceptances);
        let each = |nth| window.as_ref().map(|window| window.cpu_us_each(nth));
        figures.put("steady_per_s", "steady rate, per s", window.as_ref().map(|window| window.per_second()));
        let sum = (0..self.senders).map(each).sum::<Option<f64>>();
        figures.put("sender_cpu_us", "CPU µs each: senders, or the loop", sum);
        for (nth, watched) in self.watched.iter().enumerate() {
            if nth < self.senders && self.senders == 1 {
                continue; // it is the sum
            }
            let name = watched.name.replace('-', "_");
            figures.put(format!("{name}_cpu_us"), format!("CPU µs each: {}", watched.name), each(nth));
        }
        figures.put("wal_bytes", "WAL bytes each", window.as_ref().map(|window| window.wal_bytes_each()));
    }

    /// Of the whole run: what the server wrote, how long the senders' statements took, memory, and what the provider
    /// counted.
    pub fn put_totals(&self, figures: &mut Figures) {
        let whole = whole(&self.samples);
        // Of ours: the simulator is the provider's.
        let ours = |nth: &usize| self.watched[*nth].name != SIMULATOR;
        let cpu = whole
            .as_ref()
            .map(|whole| (0..self.watched.len()).filter(ours).map(|nth| whole.cpu_us_each(nth)).sum());
        figures.put("whole_cpu_us", "CPU µs each, whole run: senders, intake, Postgres", cpu);
        let wal = whole.as_ref().map(|whole| whole.wal_bytes_each());
        figures.put("whole_wal_bytes", "WAL bytes each, whole run", wal);
        self.put_load(figures);
        self.put_sender_times(figures);
        for (watched, peak) in self.watched.iter().zip(&self.peak_bytes) {
            if let Some(peak) = peak {
                let name = watched.name.replace('-', "_");
                let label = format!("peak memory, MB: {}", watched.name);
                figures.put(format!("{name}_peak_mb"), label, *peak as f64 / 1e6);
            }
        }
        figures.count("calls", "calls at the provider", self.stats.calls);
        figures.count("accepted", "accepted by the provider", self.stats.accepted);
        figures.count("duplicates", "duplicates", self.stats.duplicates);
    }

    /// How the senders shared the calls.
    pub fn put_shares(&self, figures: &mut Figures) {
        let calls: Vec<f64> = self.sender_metrics.iter().map(|text| counter(text, SENDER_CALLS)).collect();
        let all: f64 = calls.iter().sum();
        for (calls, n) in calls.iter().zip(1..) {
            let share = calls / all * 100.0;
            figures.put(
                format!("sender_{n}_share_percent"),
                format!("share of the calls, %: sender-{n}"),
                share,
            );
        }
    }

    fn put_load(&self, figures: &mut Figures) {
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
}
