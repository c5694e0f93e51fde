//! `bongsu bench retention`: whether senders stand still while days of deliveries are made and dropped beside them.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use bongsu_store::Step;

use super::audience;
use super::everyone::{self, Ended, unix_ms};
use super::measure::measure;
use super::options::{Defaults, Options};
use super::provider::longest_gap_us;
use super::report::{Figures, Report, Variant};
use super::world::World;
use crate::output::Output;

/// Days kept, so that of a history all but the first day are due.
const KEPT_DAYS: u32 = 1;
/// The first day ahead for which services make no partition themselves.
const FIRST_DAY_AHEAD: u32 = 3;
/// The days are dropped once this part of the broadcast has been accepted by the provider.
const UNDER_WAY: f64 = 0.1;
/// Between two days, so that they are spread over the broadcast.
const PAUSE: Duration = Duration::from_millis(200);

/// The broadcast of `sustained`, without and then while old days of deliveries are dropped and new ones made
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Days dropped and made in each run
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60))]
    days: u32,

    /// Settled deliveries in the days that are dropped
    #[arg(long, default_value_t = 2_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rows: u64,

    /// Devices that are to be notified
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    devices: u64,

    #[command(flatten)]
    pub options: Options,
}

/// What was done beside a broadcast.
#[derive(Debug, Default)]
struct Changed {
    dropped: u32,
    made: u32,
    /// Turns that gave up, for somebody held a lock.
    given_up: u32,
    /// The longest that one day took to drop.
    longest: Duration,
    /// When it began and ended, in microseconds since 1970.
    during: Option<(u64, u64)>,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let mut world = World::start(args.options.resolve(Defaults::default())?, args.devices, output).await?;
    let mut without = Variant::new("without", "WITHOUT");
    let mut with = Variant::new("with", "DAYS CHANGE");
    let mut next_day = FIRST_DAY_AHEAD;
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "the broadcast without, then while days are dropped and made");
        without.add(once(&mut world, None).await?);
        world.store.add_history(i64::try_from(args.rows)?, args.days + KEPT_DAYS).await?;
        with.add(once(&mut world, Some((args.days, next_day))).await?);
        next_day += args.days;
    }
    let mut conditions = world.conditions_json();
    conditions["rows"] = args.rows.into();
    conditions["days"] = args.days.into();
    world.stop().await;
    let mut compared = Figures::default();
    compared.put_losses(&with, &without);
    Ok(Report::new("retention", conditions, vec![without, with], compared))
}

/// One broadcast, and beside it so many days dropped and made, from that day ahead on.
async fn once(world: &mut World, change: Option<(u32, u32)>) -> anyhow::Result<Figures> {
    let devices = world.devices;
    let measured = measure(world, async |world| {
        let accepted = world.create(audience::everyone()).await?;
        let changing = async {
            match change {
                Some((days, first)) => change_days(world, days, first).await,
                None => Ok(Changed::default()),
            }
        };
        tokio::try_join!(everyone::wait(world, accepted), changing)
    })
    .await?;
    let (ended, changed): &(Ended, Changed) = &measured.outcome;
    let acceptances = world.provider.acceptances().await?;
    let mut figures = Figures::default();
    figures.put("end_to_end_per_s", "end to end, per s", devices as f64 / ended.total_s()?);
    let gap = |during| longest_gap_us(&acceptances, during).map(|gap| gap as f64 / 1e3);
    figures.put("longest_gap_ms", "longest gap between acceptances, ms", gap((0, u64::MAX)));
    if let Some(during) = changed.during {
        if acceptances.last().is_some_and(|last| *last < during.1) {
            world.output.note("the broadcast ended before the days were dropped: give it more --devices");
        }
        figures.put("longest_gap_during_ms", "the same while days were changed, ms", gap(during));
        figures.count("days_dropped", "days dropped", changed.dropped);
        figures.count("days_made", "days made", changed.made);
        figures.count("given_up", "turns that gave up for a lock", changed.given_up);
        figures.put("longest_drop_ms", "longest drop of a day, ms", changed.longest.as_secs_f64() * 1e3);
        let seconds = (during.1 - during.0) as f64 / 1e6;
        figures.put("change_s", "from the first day dropped to the last, s", seconds);
    }
    measured.put_steady(&mut figures, devices);
    measured.put_totals(&mut figures);
    ended.put_books(&mut figures, devices, &measured.stats)?;
    Ok(figures)
}

async fn change_days(world: &World, days: u32, first_ahead: u32) -> anyhow::Result<Changed> {
    world.provider.accepted((world.devices as f64 * UNDER_WAY) as u64).await?;
    let began = unix_us();
    let mut changed = Changed::default();
    let turn = world.store.retention_turn().await?;
    let mut turn = turn.context("the intake of this run leaves retention alone")?;
    loop {
        match turn.step(KEPT_DAYS).await? {
            Step::Dropped { took, .. } => {
                changed.dropped += 1;
                changed.longest = changed.longest.max(took);
                world.store.make_partition_ahead(i32::try_from(first_ahead + changed.made)?).await?;
                changed.made += 1;
            }
            Step::GaveUp { .. } => changed.given_up += 1,
            Step::Finalized(partition) => anyhow::bail!("{} is somebody else's", partition.name),
            Step::Done => break,
        }
        tokio::time::sleep(PAUSE).await;
    }
    turn.end().await?;
    ensure!(changed.dropped == days, "{} of {days} days were dropped", changed.dropped);
    changed.during = Some((began, unix_us()));
    Ok(changed)
}

fn unix_us() -> u64 {
    (unix_ms(SystemTime::now()) * 1e3) as u64
}
