//! `bongsu bench sustained`: how fast a large broadcast goes, beside the bare loop.

use serde_json::json;

use super::options::{Conditions, Defaults, Options};
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
    let conditions = args.options.resolve(Defaults::default())?;
    let mut world = World::start(conditions.clone(), args.devices, output).await?;
    let mut loops = Variant::new("bare_loop", "BARE LOOP");
    let mut product = Variant::new("bongsu", "BONGSU");
    for n in 1..=conditions.repeat {
        output.note(&format!("run {n} of {}: the bare loop, then the broadcast …", conditions.repeat));
        loops.add(bare::run(&world).await?);
        product.add(everyone::run(&mut world).await?);
    }
    world.stop().await;
    let mut compared = Figures::default();
    compared.put("ratio_to_bare_loop", "steady rate ÷ that of the bare loop", ratio(&product, &loops));
    Ok(Report::new("sustained", conditions_json(&conditions, args.devices), vec![loops, product], compared))
}

fn ratio(product: &Variant, loops: &Variant) -> Option<f64> {
    Some(product.median("steady_per_s")? / loops.median("steady_per_s")?)
}

/// What a report says about how it was made.
pub fn conditions_json(conditions: &Conditions, devices: u64) -> serde_json::Value {
    let mut object = json!(conditions);
    object["devices"] = json!(devices);
    object["optimised"] = json!(!cfg!(debug_assertions));
    object["cores"] = json!(std::thread::available_parallelism().map_or(0, usize::from));
    object
}
