//! `bongsu bench live`: what connections of users cost, how fast notifications reach them, and what a crash does to them.
//!
//! * [`connect`] connects them all, [`latency`] sends to one at a time and to all, [`storm`] kills an instance

mod connect;
mod latency;
mod storm;

use std::time::Duration;

use super::options::{Defaults, Options};
use super::report::{Figures, Report, Variant};
use super::world::World;
use crate::live::open_files;
use crate::output::Output;

/// How long anything that all clients do may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Many users with an open stream each: memory and time to connect, one-user notices at a rate, one to all, and the crash of an
/// instance
///
/// Routed `live`, so that no provider is called. The clients are this process, which has the clock of both ends; they share the
/// machine with the senders. A connection takes an open file here and at the sender.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Users, of one connection each
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=27_000))]
    connections: u64,

    /// One-user notices in a second
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,

    /// For how long
    #[arg(long, default_value_t = 20, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,

    /// Clients acknowledge what they get, as real ones do where a push would follow
    #[arg(long)]
    acknowledge: bool,

    #[command(flatten)]
    pub options: Options,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    open_files::allow(args.connections)?;
    let mut conditions = args.options.resolve(Defaults::default())?;
    conditions.live = true;
    let mut world = World::start(conditions, args.connections, output).await?;
    let mut product = Variant::new("bongsu", "BONGSU");
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "connecting, notices, a broadcast, and a crash");
        product.add(live(&mut world, args).await?);
    }
    let more = [
        ("rate", args.rate.into()),
        ("seconds", args.seconds.into()),
        ("acknowledge", args.acknowledge.into()),
    ];
    Ok(world.report("live", &more, vec![product], Figures::default()).await)
}

async fn live(world: &mut World, args: &Args) -> anyhow::Result<Figures> {
    world.settle().await?;
    let mut senders = world.start_senders().await?;
    let mut figures = Figures::default();
    let crowd = connect::all(world, &senders, args.acknowledge, &mut figures).await?;
    latency::notices(world, &crowd, &senders, args, &mut figures).await?;
    latency::everyone(world, &crowd, &senders, &mut figures).await?;
    let records = storm::storm(world, crowd, &mut senders, &mut figures).await?;
    let mistakes: Vec<&String> = records.iter().flat_map(|record| &record.mistakes).collect();
    anyhow::ensure!(mistakes.is_empty(), "clients saw what they should not have seen: {mistakes:?}");
    let broken = world.store.broken_invariants().await?;
    anyhow::ensure!(broken.is_empty(), "the books do not balance: {broken:?}");
    World::stop_processes(senders).await;
    Ok(figures)
}
