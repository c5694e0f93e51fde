//! `bongsu bench snapshot`: what somebody's old snapshot costs, which keeps VACUUM from everything that came after it.

use super::everyone;
use super::options::{Defaults, Large};
use super::report::{Figures, Report, Variant};
use crate::output::Output;

/// The broadcast of `sustained`, alternately without and with a session that holds an old snapshot
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub large: Large,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let mut world = args.large.world(Defaults::default(), output).await?;
    let mut without = Variant::new("without", "WITHOUT");
    let mut with = Variant::new("with", "OLD SNAPSHOT");
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "the broadcast without, then with an old snapshot");
        without.add(everyone::run(&mut world).await?);
        let snapshot = world.store.hold_snapshot().await?;
        with.add(everyone::run(&mut world).await?);
        snapshot.end().await?;
    }
    let mut compared = Figures::default();
    compared.put_losses(&with, &without);
    Ok(world.report("snapshot", &[], vec![without, with], compared).await)
}
