//! `bongsu bench burst`: how soon everybody is told, with a provider as slow and as unreliable as they are.

use std::time::{Duration, SystemTime};

use super::options::{Defaults, Options};
use super::report::{Figures, Report, Variant};
use super::world::{Accepted, World};
use super::{audience, everyone, measure};
use crate::output::Output;

/// Part of the devices that are told fast: the rest was answered 503 at first, or waits behind those.
const MOST: f64 = 0.95;
/// The call after the first delay. Some fail there again: what those wait, the schedule of retries says.
const FIRST_RETRY: i32 = 2;
/// More than a sender's ramp takes.
const RAMP: Duration = Duration::from_secs(2);
const DEFAULTS: Defaults =
    Defaults { latency_ms: 30, jitter_ms: 10, transient: 0.03, in_flight: Some(1_024) };

/// One broadcast to 10,000 devices: the time until 95 % have it, until all that failed once at most is final, and until everything is
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Devices that are to be notified
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    devices: u64,

    #[command(flatten)]
    pub options: Options,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let mut world = World::start(args.options.resolve(DEFAULTS)?, args.devices, output).await?;
    let mut product = Variant::new("bongsu", "BONGSU");
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "the broadcast");
        product.add(burst(&mut world).await?);
    }
    Ok(world.report("burst", &[], vec![product], Figures::default()).await)
}

async fn burst(world: &mut World) -> anyhow::Result<Figures> {
    let devices = world.devices;
    let most = (devices as f64 * MOST).ceil() as u64;
    let measured = measure::measure(world, async |world| {
        // A sender begins with a few calls, once in its life: that is not what is measured here.
        let first = world.create(audience::one_user(0)).await?;
        everyone::wait(world, first).await?;
        tokio::time::sleep(RAMP).await;
        world.provider.reset().await?;
        let accepted: Accepted = world.create(audience::everyone()).await?;
        // The simulator notes the moment; looking for it would find it late.
        let (then, ended) = tokio::try_join!(world.provider.accepted(most), everyone::wait(world, accepted))?;
        Ok((then, ended))
    })
    .await?;
    let (then, ended) = &measured.outcome;
    let most_at = then.last_accepted_unix_ms.map(|at| at as f64 - everyone::unix_ms(ended.accepted.at));
    let once = world.store.settled_within_calls(ended.accepted.id, FIRST_RETRY).await?;
    let once_ms =
        once.map(|at| everyone::unix_ms(SystemTime::from(at)) - everyone::unix_ms(ended.accepted.at));
    let mut figures = Figures::default();
    figures.put("accepted_95_percent_s", "from answer to 95 % accepted, s", most_at.map(|ms| ms / 1e3));
    figures.put(
        "failed_once_s",
        "from answer to all final that failed once at most, s",
        once_ms.map(|ms| ms / 1e3),
    );
    figures.put("total_s", "from answer to everything final, s", ended.total_s()?);
    figures.put("accept_ms", "accept, ms", ended.accepted.took.as_secs_f64() * 1e3);
    let first = measured.stats.first_accepted_unix_ms;
    let first = first.map(|at| at as f64 - everyone::unix_ms(ended.accepted.at));
    figures.put("first_accepted_ms", "from answer to first acceptance, ms", first);
    measured.put_totals(&mut figures);
    ended.put_books(&mut figures, devices, &measured.stats)?;
    Ok(figures)
}
