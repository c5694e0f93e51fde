//! `bongsu demo`: the situation that Bongsu was built for, played with real processes.
//!
//! * [`play`] plays it and measures, [`killing`] is its crash
//! * [`facts`] is what was measured and what must hold, [`story`] tells it to people
//! * [`audience`] makes the devices, [`sim`] asks the simulator
//! * [`live`] is another one: `--live`

mod audience;
mod facts;
mod killing;
mod live;
mod play;
mod sim;
mod story;

use bongsu_ops::{shutdown, telemetry};

use crate::Context;
use crate::error::Failure;

/// Acceptances before the kill, with as many devices as usual.
const USUAL_KILL: u32 = 3_000;

/// Play a broadcast from start to end on this machine, with a crash in the middle, and tell what happened
///
/// Everything is real: both services, the push provider's simulator and a private PostgreSQL, each a process of its own.
/// The operator presses the button twice, then once more with another text; a sender is killed with SIGKILL. The exit code
/// is 0 only if every promise was kept.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Devices that asked to be notified
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    devices: u32,

    /// Mean time the provider takes to answer, in milliseconds
    #[arg(long, default_value_t = 30, value_name = "MS")]
    latency_ms: u32,

    /// By how much an answer may come earlier or later, in milliseconds
    #[arg(long, default_value_t = 10, value_name = "MS")]
    jitter_ms: u32,

    /// Share of calls that the provider answers with 503, from 0 to 1
    #[arg(long, default_value_t = 0.03, value_name = "SHARE")]
    transient: f64,

    /// Devices whose token is gone: the provider answers 410
    #[arg(long, conflicts_with = "live", default_value_t = 100, value_name = "N")]
    expired: u32,

    /// Devices for which the provider always answers 503
    #[arg(long, conflicts_with = "live", default_value_t = 100, value_name = "N")]
    failing: u32,

    /// Kill a sender with SIGKILL once the provider has accepted so many; 0 kills none [default: 3000, or a third of what
    /// the provider will accept]
    #[arg(long, conflicts_with = "live", value_name = "N")]
    kill_after: Option<u32>,

    /// Start the killed sender again after so many seconds; only where it is the only one
    #[arg(long, conflicts_with = "live", default_value_t = 5.0, value_name = "SECONDS")]
    restart_after_s: f64,

    /// Senders; with two or more, a survivor takes over the work of the one that is killed
    #[arg(long, conflicts_with = "live", default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    senders: u8,

    /// Calls under way to the provider at most, per sender
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    in_flight: u32,

    /// Let the provider drop calls whose Idempotency-Key it has accepted before
    #[arg(long)]
    provider_dedupe: bool,

    /// Seed of what the provider does by chance
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,

    /// A database to use instead of a private PostgreSQL; devices and broadcasts are added to it
    #[arg(long, env = "BONGSU_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,

    #[command(flatten)]
    live: live::LiveArgs,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    args.check()?;
    telemetry::install_crypto();
    let shutdown = shutdown::on_signals();
    // Dropping what is under way kills it.
    let Some(shown) = shutdown.run_until_cancelled(show(&args, context)).await else {
        return Err(anyhow::anyhow!("stopped before the end").into());
    };
    let broken = shown?;
    if broken.is_empty() {
        return Ok(());
    }
    Err(anyhow::anyhow!("promises were not kept:\n  {}", broken.join("\n  ")).into())
}

/// Plays it, tells it, and returns the promises that were not kept.
async fn show(args: &Args, context: &Context) -> Result<Vec<String>, Failure> {
    if args.live.live {
        return live::show(args, context).await;
    }
    let facts = play::play(args, context).await?;
    context.output.either(&facts, || story::tell(args, &facts))?;
    Ok(facts.broken_promises(args))
}

impl Args {
    /// Devices that the provider accepts sooner or later.
    fn acceptable(&self) -> u32 {
        self.devices - self.expired - self.failing
    }

    /// Acceptances before the kill; 0: none is killed.
    fn kill_after(&self) -> u32 {
        self.kill_after.unwrap_or_else(|| USUAL_KILL.min(self.acceptable() / 3))
    }

    fn check(&self) -> anyhow::Result<()> {
        self.live.check(self.devices)?;
        if !self.live.live {
            self.check_crash()?;
        }
        anyhow::ensure!(
            (0.0..=1.0).contains(&self.transient),
            "--transient {} is not from 0 to 1",
            self.transient
        );
        anyhow::ensure!(
            self.jitter_ms <= self.latency_ms,
            "--jitter-ms {} is more than --latency-ms {}",
            self.jitter_ms,
            self.latency_ms
        );
        anyhow::ensure!(
            self.restart_after_s.is_finite() && (0.0..=3_600.0).contains(&self.restart_after_s),
            "--restart-after-s {} is not from 0 to 3600",
            self.restart_after_s
        );
        Ok(())
    }

    fn check_crash(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            u64::from(self.expired) + u64::from(self.failing) <= u64::from(self.devices),
            "--expired {} and --failing {} are more than --devices {}",
            self.expired,
            self.failing,
            self.devices
        );
        anyhow::ensure!(
            self.kill_after() <= self.acceptable(),
            "--kill-after {}: the provider will accept no more than {}",
            self.kill_after(),
            self.acceptable()
        );
        Ok(())
    }
}
