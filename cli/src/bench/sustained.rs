//! `bongsu bench sustained`: how fast a large broadcast goes, beside the bare loop.

use super::options::{Defaults, Options};
use super::report::{Figures, Report, Variant};
use super::world::World;
use super::{bare, everyone};
use crate::output::Output;

/// One broadcast to all devices, alternating with the bare loop: the sender's own client without a database
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
    let mut loops = Variant::new("bare_loop", "BARE LOOP");
    let mut product = Variant::new("bongsu", "BONGSU");
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "the bare loop, then the broadcast");
        loops.add(bare::run(&world).await?);
        product.add(everyone::run(&mut world).await?);
    }
    let conditions = world.conditions_json();
    world.stop().await;
    let mut compared = Figures::default();
    compared.put("ratio_to_bare_loop", "steady rate ÷ that of the bare loop", ratio(&product, &loops));
    Ok(Report::new("sustained", conditions, vec![loops, product], compared))
}

fn ratio(product: &Variant, loops: &Variant) -> Option<f64> {
    Some(product.median("steady_per_s")? / loops.median("steady_per_s")?)
}
