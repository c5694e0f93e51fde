//! `bongsu bench snapshot`: what somebody's old snapshot costs, which keeps VACUUM from everything that came after it.

use super::everyone;
use super::options::{Defaults, Options};
use super::report::{Figures, Report, Variant};
use super::world::World;
use crate::output::Output;

/// The broadcast of `sustained`, alternately without and with a session that holds an old snapshot
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Devices that are to be notified
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    devices: u64,

    #[command(flatten)]
    pub options: Options,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let mut world = World::start(args.options.resolve(Defaults::default())?, args.devices, output).await?;
    let mut without = Variant::new("without", "WITHOUT");
    let mut with = Variant::new("with", "OLD SNAPSHOT");
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "the broadcast without, then with an old snapshot");
        without.add(everyone::run(&mut world).await?);
        let snapshot = world.store.hold_snapshot().await?;
        with.add(everyone::run(&mut world).await?);
        snapshot.end().await?;
    }
    let conditions = world.conditions_json();
    world.stop().await;
    let mut compared = Figures::default();
    compared.put_losses(&with, &without);
    Ok(Report::new("snapshot", conditions, vec![without, with], compared))
}
