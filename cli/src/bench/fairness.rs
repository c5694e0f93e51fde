//! `bongsu bench fairness`: how long a broadcast to one user takes while one to everybody is under way.

use std::time::Duration;

use super::audience::{self, one_user, request};
use super::callers::{Callers, Calls};
use super::everyone::{self, Ended};
use super::measure::measure;
use super::options::{Defaults, Large};
use super::report::{Figures, Report, Variant};
use super::world::World;
use crate::output::Output;

/// The calls begin once this part of the large broadcast has been accepted by the provider.
const UNDER_WAY: f64 = 0.1;
/// Calls under way at most: more than the rate needs.
const CALLERS: u32 = 64;

/// One-user broadcasts while one to all devices runs at full speed: the time from each call to the provider's acceptance
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// One-user broadcasts in a second
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,

    /// For how long
    #[arg(long, default_value_t = 10, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,

    #[command(flatten)]
    pub large: Large,
}

/// What there was to see.
#[derive(Debug)]
struct Sent {
    large: Ended,
    calls: Calls,
    /// What the provider had accepted of all when the calls ended.
    accepted_then: u64,
}

pub async fn run(args: &Args, output: Output) -> anyhow::Result<Report> {
    let mut world = args.large.world(Defaults::default(), output).await?;
    let mut product = Variant::new("bongsu", "BONGSU");
    for n in 1..=world.conditions.repeat {
        world.note_run(n, "one broadcast to everybody and many to one user each");
        product.add(fairness(&mut world, args).await?);
    }
    Ok(world
        .report(
            "fairness",
            &[("rate", args.rate.into()), ("seconds", args.seconds.into())],
            vec![product],
            Figures::default(),
        )
        .await)
}

async fn fairness(world: &mut World, args: &Args) -> anyhow::Result<Figures> {
    let devices = world.devices;
    let callers = Callers {
        count: CALLERS,
        rate: Some(args.rate.into()),
        length: Duration::from_secs(args.seconds),
        users: devices,
        seed: world.conditions.seed,
        request: |user| request(one_user(user)),
    };
    let measured = measure(world, async |world| {
        let clients = world.connections().await?;
        let large = world.create(audience::everyone()).await?;
        let small = async {
            world.provider.accepted((devices as f64 * UNDER_WAY) as u64).await?;
            let calls = callers.call(&clients).await?;
            Ok((calls, world.provider.stats().await?.accepted))
        };
        let (large, (calls, accepted_then)) = tokio::try_join!(everyone::wait(world, large), small)?;
        world.none_open().await?;
        Ok(Sent { large, calls, accepted_then })
    })
    .await?;
    let Sent { large, calls, accepted_then } = &measured.outcome;
    let created = calls.calls.len() as u64;
    let overlap = accepted_then.saturating_sub(created) as f64 / devices as f64;
    if overlap >= 1.0 {
        world.output.note("the large broadcast ended before the small ones: give it more --devices");
    }
    let mut figures = Figures::default();
    calls.put_latency(&mut figures, &world.provider.first_acceptances().await?);
    calls.put_accept(&mut figures);
    figures.put(
        "large_done_percent",
        "of the large one, accepted when the calls ended, %",
        overlap.min(1.0) * 100.0,
    );
    figures.put("large_total_s", "the large one from answer to completed, s", large.total_s()?);
    measured.put_steady(&mut figures, devices + created);
    figures.count("created", "one-user broadcasts created", created);
    measured.put_totals(&mut figures);
    large.put_books(&mut figures, devices, &measured.stats)?;
    Ok(figures)
}
