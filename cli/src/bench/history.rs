//! `bongsu bench history`: what the settled deliveries of earlier days cost.

use std::time::Instant;

use super::everyone;
use super::options::{Defaults, Large};
use super::report::{Figures, Report, Variant};
use crate::output::Output;

/// Over so many days the history is spread, each a partition.
const DAYS: u32 = 10;

/// The broadcast of `sustained`, without and then with settled deliveries in the partitions of earlier days
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Settled deliveries
    #[arg(long, default_value_t = 10_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rows: u64,

    #[command(flatten)]
    pub large: Large,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let mut world = args.large.world(Defaults::default(), output).await?;
    let mut without = Variant::new("without", "WITHOUT");
    let mut with = Variant::new("with", "WITH HISTORY");
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "the broadcast without history");
        without.add(everyone::run(&mut world).await?);
    }
    let began = Instant::now();
    let rows = i64::try_from(args.rows)?;
    world.store.add_history(rows, DAYS).await?;
    output.note(&format!("made {} settled deliveries in {:.0} s", args.rows, began.elapsed().as_secs_f64()));
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "the broadcast with history");
        with.add(everyone::run(&mut world).await?);
    }
    let mut compared = Figures::default();
    compared.put_losses(&with, &without);
    Ok(world.report("history", &[("rows", args.rows.into())], vec![without, with], compared).await)
}
