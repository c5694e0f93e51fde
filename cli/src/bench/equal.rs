//! `bongsu bench equal`: whether broadcasts that are alike, and were created together, end together.

use anyhow::Context as _;

use super::everyone::{self, Ended, unix_ms};
use super::measure::measure;
use super::options::{Defaults, Large};
use super::report::{Figures, Report, Variant};
use super::world::World;
use crate::output::Output;

/// Equal broadcasts to everybody at the same time: how far apart they end
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Broadcasts
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=50))]
    broadcasts: u8,

    #[command(flatten)]
    pub large: Large,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let mut world = args.large.world(Defaults::default(), output).await?;
    let mut product = Variant::new("bongsu", "BONGSU");
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "equal broadcasts");
        product.add(equal(&mut world, args.broadcasts).await?);
    }
    let more = [("broadcasts", args.broadcasts.into())];
    Ok(world.report("equal", &more, vec![product], Figures::default()).await)
}

async fn equal(world: &mut World, broadcasts: u8) -> anyhow::Result<Figures> {
    let all = world.devices * u64::from(broadcasts);
    let measured = measure(world, async |world| {
        let accepted = everyone::create(world, broadcasts).await?;
        everyone::wait_all(world, accepted).await
    })
    .await?;
    let ended = &measured.outcome;
    let took = seconds_from_first_answer(ended)?;
    let least = took.iter().copied().fold(f64::INFINITY, f64::min);
    let most = took.iter().copied().fold(0.0, f64::max);
    let mut figures = Figures::default();
    figures.put("end_to_end_per_s", "end to end, per s", all as f64 / most);
    figures.put("first_ended_s", "from first answer to the first end, s", least);
    figures.put("last_ended_s", "from first answer to the last end, s", most);
    figures.put("apart_percent", "the first ends before the last by %", (1.0 - least / most) * 100.0);
    measured.put_steady(&mut figures, all);
    measured.put_totals(&mut figures);
    everyone::put_all_books(&mut figures, ended, world.devices, &measured.stats)?;
    Ok(figures)
}

/// By broadcast, when it ended.
pub fn seconds_from_first_answer(ended: &[Ended]) -> anyhow::Result<Vec<f64>> {
    let first = ended.first().context("at least one broadcast")?;
    let since = |ended: &Ended| (unix_ms(ended.accepted.at) - unix_ms(first.accepted.at)) / 1e3;
    ended.iter().map(|ended| Ok(since(ended) + ended.total_s()?)).collect()
}
