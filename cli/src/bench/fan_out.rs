//! `bongsu bench fan-out`: how fast audiences become deliveries, without any sender.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use bongsu_proto::v1::audience::Kind;

use super::audience;
use super::everyone::unix_ms;
use super::kernel::{self, Watched};
use super::options::{Defaults, Large};
use super::provider::{counter, metrics};
use super::quantile::Histogram;
use super::report::{Figures, Report, Variant};
use super::world::World;
use crate::output::Output;
use crate::stack::Process;

/// Every device has it.
const TOPIC: &str = "all";
/// How often it is looked whether all is made. When it was, the database tells.
const LOOK: Duration = Duration::from_millis(20);
const PAGE_SECONDS: &str = "bongsu_intake_fan_out_page_seconds";
const DELIVERIES: &str = "bongsu_intake_fan_out_deliveries_total";

/// Audiences become deliveries, with no sender at work: everyone, a topic, lists of users and of devices by one intake; and two
/// broadcasts to everyone by two. Beside the bare insert: the deliveries of everyone, and nothing else
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Ids in an explicit list: as long as CreateBroadcast permits, unless there are fewer devices
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(501..=100_000))]
    listed: u64,

    #[command(flatten)]
    pub large: Large,
}

/// What is made deliveries of, and by how many intakes: as many broadcasts.
#[derive(Clone, Copy, Debug)]
struct Case {
    audience: fn(u64, u64) -> Kind,
    /// Whether it has as many deliveries as are listed, or as there are devices.
    is_list: bool,
    intakes: u32,
}

const CASES: [(&str, &str, Case); 5] = [
    ("everyone", "EVERYONE", Case { audience: |_, _| audience::everyone(), is_list: false, intakes: 1 }),
    ("topic", "A TOPIC", Case { audience: |_, _| audience::topic(TOPIC), is_list: false, intakes: 1 }),
    ("users", "USERS", Case { audience: audience::some_users, is_list: true, intakes: 1 }),
    ("devices", "DEVICES", Case { audience: audience::some_devices, is_list: true, intakes: 1 }),
    (
        "two_intakes",
        "TWO INTAKES",
        Case { audience: |_, _| audience::everyone(), is_list: false, intakes: 2 },
    ),
];

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let devices = args.large.devices;
    let listed = args.listed.min(devices);
    let conditions = args.large.options.resolve(Defaults::default())?;
    let mut world = World::start_with_topics(conditions, devices, &[TOPIC], output).await?;
    let mut bare = Variant::new("bare_insert", "BARE INSERT");
    let mut variants = CASES.map(|(name, label, _)| Variant::new(name, label)).to_vec();
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "the bare insert, then each audience");
        bare.add(bare_insert(&world).await?);
        for ((.., case), variant) in CASES.iter().zip(&mut variants) {
            variant.add(fan_out(&mut world, *case, listed).await?);
        }
    }
    let ratio = || Some(variants.first()?.median("fan_out_per_s")? / bare.median("fan_out_per_s")?);
    let mut compared = Figures::default();
    compared.put("ratio_to_bare_insert", "everyone ÷ the bare insert", ratio());
    variants.insert(0, bare);
    Ok(world.report("fan-out", &[("listed", listed.into())], variants, compared).await)
}

async fn bare_insert(world: &World) -> anyhow::Result<Figures> {
    world.settle().await?;
    let before = Used::now(world).await?;
    let (deliveries, took) = world.store.insert_deliveries_alone().await?;
    let after = Used::now(world).await?;
    ensure!(deliveries == world.devices, "{deliveries} deliveries for {} devices", world.devices);
    let mut figures = Figures::default();
    figures.put("fan_out_per_s", "deliveries made, per s", deliveries as f64 / took.as_secs_f64());
    after.put_since(&before, &mut figures, deliveries);
    Ok(figures)
}

async fn fan_out(world: &mut World, case: Case, listed: u64) -> anyhow::Result<Figures> {
    let each = if case.is_list { listed } else { world.devices };
    let deliveries = each * u64::from(case.intakes);
    world.settle().await?;
    let others = world.fresh_intakes(case.intakes - 1).await?;
    let intakes: Vec<&Process> = std::iter::once(world.intake()).chain(&others).collect();
    let idle = peak_mb(&intakes)?;
    let before = Used::now(world).await?;
    let mut ids = Vec::new();
    let mut began = None;
    for _ in 0..case.intakes {
        let accepted = world.create((case.audience)(world.devices, listed)).await?;
        began.get_or_insert(accepted.at);
        ids.push(accepted.id);
    }
    let began = began.context("at least one broadcast")?;
    let ended = fanned_out(world, &ids).await?;
    let after = Used::now(world).await?;
    for id in ids {
        let counts = world.broadcast(id).await?.counts.unwrap_or_default();
        ensure!(counts.total.unsigned_abs() == each, "{} deliveries for an audience of {each}", counts.total);
    }
    let seconds = (unix_ms(ended) - unix_ms(began)) / 1e3;
    let mut figures = Figures::default();
    figures.put("fan_out_per_s", "deliveries made, per s", deliveries as f64 / seconds);
    after.put_since(&before, &mut figures, deliveries);
    put_pages(&mut figures, &intakes).await?;
    figures.put("intake_idle_peak_mb", "peak memory, MB: intakes before", idle);
    figures.put("intake_peak_mb", "peak memory, MB: intakes", peak_mb(&intakes)?);
    figures.count("deliveries", "deliveries made", deliveries);
    World::stop_processes(others).await;
    Ok(figures)
}

async fn fanned_out(world: &World, ids: &[i64]) -> anyhow::Result<SystemTime> {
    loop {
        if let Some(at) = world.store.fanned_out_at(ids).await? {
            return Ok(at.into());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// How long pages took, and how the intakes shared them.
async fn put_pages(figures: &mut Figures, intakes: &[&Process]) -> anyhow::Result<()> {
    let mut pages = Histogram::default();
    let mut made = Vec::new();
    for intake in intakes {
        let text = metrics(intake.admin().context("an intake has an admin port")?).await?;
        pages.add(&Histogram::read(&text, PAGE_SECONDS));
        made.push(counter(&text, DELIVERIES));
    }
    for (share, word, told) in [(0.5, "p50", "median"), (0.99, "p99", "99 %")] {
        let millis = pages.quantile(share).map(|seconds| seconds * 1e3);
        figures.put(format!("page_{word}_ms"), format!("a page, ms: {told}"), millis);
    }
    let all: f64 = made.iter().sum();
    for (made, n) in made.iter().zip(1..).filter(|_| intakes.len() > 1) {
        figures.put(
            format!("intake_{n}_share_percent"),
            format!("made by intake {n}, %"),
            made / all * 100.0,
        );
    }
    Ok(())
}

/// The greatest of them: each has to do for itself.
fn peak_mb(intakes: &[&Process]) -> anyhow::Result<f64> {
    let mut most = 0;
    for intake in intakes {
        most = most.max(kernel::peak_memory_bytes(intake.pid().context("the intake is gone")?)?);
    }
    Ok(most as f64 / 1e6)
}

/// What the server has used so far.
#[derive(Debug)]
struct Used {
    cpu_s: f64,
    wal_bytes: i64,
}

impl Used {
    async fn now(world: &World) -> anyhow::Result<Self> {
        let [.., postgres]: [Watched; 3] = world.watched()?;
        Ok(Self { cpu_s: kernel::cpu_seconds(&postgres)?, wal_bytes: world.store.wal_position().await? })
    }

    fn put_since(&self, before: &Self, figures: &mut Figures, deliveries: u64) {
        let each = |value: f64| value / deliveries as f64;
        figures.put("postgres_cpu_us", "CPU µs each: postgres", each((self.cpu_s - before.cpu_s) * 1e6));
        figures.put("wal_bytes", "WAL bytes each", each((self.wal_bytes - before.wal_bytes) as f64));
    }
}
