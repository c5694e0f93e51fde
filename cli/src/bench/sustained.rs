//! `bongsu bench sustained`: how fast a large broadcast goes, beside the bare loop.

use bongsu_store::DEFAULT_RETENTION_DAYS;

use super::options::{Defaults, Large};
use super::report::{Figures, Report, Variant};
use super::{bare, everyone};
use crate::output::Output;

/// One broadcast to all devices, alternating with the bare loop: the sender's own client without a database
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub large: Large,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let mut world = args.large.world(Defaults::default(), output).await?;
    // As many as there are with the usual retention: each makes a delivery a little dearer.
    for day in 1..DEFAULT_RETENTION_DAYS {
        world.store.make_partition_ahead(-i32::try_from(day)?).await?;
    }
    let mut loops = Variant::new("bare_loop", "BARE LOOP");
    let mut product = Variant::new("bongsu", "BONGSU");
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "the bare loop, then the broadcast");
        loops.add(bare::run(&world).await?);
        product.add(everyone::run(&mut world).await?);
    }
    let mut compared = Figures::default();
    let ratio = product.ratio(&loops, "steady_per_s");
    compared.put("ratio_to_bare_loop", "steady rate ÷ that of the bare loop", ratio);
    Ok(world.report("sustained", &[], vec![loops, product], compared).await)
}
