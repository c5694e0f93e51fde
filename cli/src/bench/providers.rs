//! `bongsu bench providers`: how fast each kind of provider is called, over TLS where it is.

use bongsu_store::ProviderKind;

use super::everyone;
use super::options::{Defaults, Options};
use super::report::{Figures, Report, Variant};
use super::world::World;
use crate::output::Output;

/// One broadcast to everyone by each kind of provider: webhook in clear text, FCM, APNs and Web Push over TLS; the simulator checks
/// no signatures and opens no ciphers meanwhile
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Devices that are to be notified
    #[arg(long, default_value_t = 200_000, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    devices: u64,

    #[command(flatten)]
    pub options: Options,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let mut variants = Vec::new();
    let mut conditions = serde_json::Value::Null;
    for kind in ProviderKind::ALL {
        let mut resolved = args.options.resolve(Defaults::default())?;
        resolved.kind = kind;
        let mut world = World::start(resolved, args.devices, output).await?;
        let mut variant = Variant::new(kind.name(), kind.name());
        for n in 1..=world.conditions.repeat {
            world.note_run(n, kind.name());
            variant.add(everyone::run(&mut world).await?);
        }
        variants.push(variant);
        conditions = world.conditions_json();
        world.stop().await;
    }
    if let Some(conditions) = conditions.as_object_mut() {
        conditions.remove("kind");
    }
    Ok(Report::new("providers", conditions, variants, Figures::default()))
}
