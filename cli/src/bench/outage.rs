//! `bongsu bench outage`: a provider that fails as a whole in the middle of a broadcast, and how soon it goes on after that.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use provider_sim::{BehaviourPatch, Mark};

use super::audience;
use super::everyone::{self, Ended};
use super::measure::measure;
use super::options::{Defaults, Options};
use super::report::{Figures, Report, Variant};
use super::world::World;
use crate::output::Output;

/// The outage begins once this part of the devices has it.
const BEGINS: f64 = 0.3;

/// One broadcast in whose middle the provider answers 503 to everything for a while: the time to resume, and that nothing
/// of it becomes a dead letter
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Devices that are to be notified
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    devices: u64,

    /// Length of the outage
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    outage_s: f64,

    #[command(flatten)]
    pub options: Options,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let length = Duration::try_from_secs_f64(args.outage_s).context("--outage-s is no length of time")?;
    let mut world = World::start(args.options.resolve(Defaults::default())?, args.devices, output).await?;
    let mut product = Variant::new("bongsu", "BONGSU");
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "the broadcast and the outage");
        product.add(outage(&mut world, length).await?);
    }
    Ok(world.report("outage", &[("outage_s", args.outage_s.into())], vec![product], Figures::default()).await)
}

async fn outage(world: &mut World, length: Duration) -> anyhow::Result<Figures> {
    let devices = world.devices;
    let measured = measure(world, async |world| {
        let accepted = world.create(audience::everyone()).await?;
        let outage = async {
            world.provider.accepted((devices as f64 * BEGINS) as u64).await?;
            world.provider.behave(&failing(true)).await?;
            tokio::time::sleep(length).await;
            let end = world.provider.mark().await?;
            world.provider.behave(&failing(false)).await?;
            Ok(end.accepted)
        };
        tokio::try_join!(everyone::wait(world, accepted), outage)
    })
    .await?;
    let (ended, accepted_before): &(Ended, u64) = &measured.outcome;
    let counts = ended.counts();
    ensure!(counts.dead == 0, "{} deliveries died of the outage", counts.dead);
    ensure!(*accepted_before < devices, "the broadcast was over before the outage: give it more --devices");
    let mark: &Mark = measured.stats.mark.as_ref().context("the end of the outage was marked")?;
    let resumed = mark.first_accepted_after_unix_ms.context("nothing was accepted after the outage")?;
    let mut figures = Figures::default();
    figures.put(
        "resume_s",
        "from its end to the next acceptance, s",
        (resumed - mark.at_unix_ms) as f64 / 1e3,
    );
    let rest_s = ended.total_s()? - (mark.at_unix_ms as f64 - everyone::unix_ms(ended.accepted.at)) / 1e3;
    figures.put("rest_s", "from its end to completed, s", rest_s);
    figures.count("accepted_before", "accepted before its end", *accepted_before);
    figures.count("refused", "calls made and refused during it", measured.stats.outage);
    figures.put("total_s", "from answer to completed, s", ended.total_s()?);
    measured.put_totals(&mut figures);
    ended.put_books(&mut figures, devices, &measured.stats)?;
    Ok(figures)
}

fn failing(outage: bool) -> BehaviourPatch {
    BehaviourPatch { outage: Some(outage), ..BehaviourPatch::default() }
}
