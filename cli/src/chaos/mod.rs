//! `bongsu chaos`: real processes, killed and frozen at seeded random moments, and books that must balance after each trial.
//!
//! * [`plan`] draws what happens from a seed, [`trial`] plays it, [`books`] is what must hold
//! * [`world`] is the processes; [`migration`] kills a migration in its middle
//! * [`live`] are other trials, of the live channel

mod books;
pub mod live;
mod migration;
mod plan;
mod trial;
mod world;

use std::path::PathBuf;
use std::time::Duration;

use bongsu_ops::{shutdown, telemetry};
use bongsu_proto::v1;
use serde::Serialize;

use crate::Context;
use crate::error::Failure;
use crate::words;
use plan::{Plan, Scale};
use trial::{Devices, Outcome};
use world::{Setup, World};

/// Devices that always fail: so few that they alone do not look like an outage.
const BAD_DEVICES: u32 = 4;
/// A migration is killed in every so manieth trial, the first one included.
const MIGRATION_EVERY: u64 = 20;

/// Kill and freeze real processes at random moments, and check after each trial that nothing was lost
///
/// Each trial sends a broadcast through an intake and two senders to the push provider's simulator, and does to them what
/// its seed says: SIGKILL, SIGSTOP within the lease and beyond it, SIGTERM, pause. Then the books of the database, of
/// StreamStatus and of the provider must say the same, and duplicates be no more than what was in flight or unrecorded
/// where a sender was killed. The exit code is 0 only if all trials pass.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// How many trials
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub trials: u64,

    /// Seed of the first trial; each further one has the next [default: a random one, told]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Devices that the provider accepts
    #[arg(long, default_value_t = 2_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub devices: u32,

    /// Whether broadcasts are sent at least once, or at most once: then there must be no duplicate at all
    #[arg(long, default_value = "at_least_once", conflicts_with = "live", value_parser = words::parser::<v1::Guarantee>())]
    pub guarantee: v1::Guarantee,

    /// With the product's own lease, time-out and retry schedule, instead of about a tenth of them
    #[arg(long)]
    pub full_scale: bool,

    #[command(flatten)]
    pub live: live::LiveArgs,

    /// The executable that is to be every process [default: this one]
    #[arg(long, hide = true)]
    pub executable: Option<PathBuf>,
}

/// What all trials came to.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub first_seed: u64,
    pub trials: u64,
    pub kills: u32,
    pub freezes: u32,
    pub calls: u64,
    pub duplicates: u64,
    pub duplicates_allowed: u64,
    pub unconfirmed: u64,
    /// From the kill of a sender that held something until all of it was in other hands, in milliseconds, sorted.
    pub takeover_ms: Vec<u64>,
    /// The longest time without an acceptance in the middle of a broadcast, freezes and pauses included.
    pub longest_stall_ms: u64,
}

/// A trial whose books do not balance.
#[derive(Debug, thiserror::Error)]
#[error("trial with seed {seed}: {}\nthe same trial again: bongsu chaos --trials 1 --seed {seed}{options}\nits logs: {logs}", .mistakes.join("\n  "))]
pub struct Broken {
    seed: u64,
    options: String,
    mistakes: Vec<String>,
    logs: String,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    let shutdown = shutdown::on_signals();
    let told = |text: &str| output.note(text);
    let played = shutdown.run_until_cancelled(async {
        if args.live.live {
            let report = live::trials(args, told).await?;
            return output.either(&report, || report.text());
        }
        let report = trials(args, told).await?;
        output.either(&report, || report.text())
    });
    played.await.unwrap_or_else(|| Err(anyhow::anyhow!("stopped before the end").into()))
}

/// Runs the trials; `note` is told of each.
pub async fn trials(args: Args, note: impl Fn(&str)) -> anyhow::Result<Report> {
    telemetry::install_crypto();
    let scale = if args.full_scale { Scale::full() } else { Scale::tenth() };
    let seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let executable = args.executable.clone().map_or_else(std::env::current_exe, Ok)?;
    let logs = tempfile::Builder::new().prefix("bongsu-chaos-").tempdir()?;
    let at_most_once = args.guarantee == v1::Guarantee::AtMostOnce;
    let devices = Devices { good: args.devices, bad: BAD_DEVICES };
    note(&format!("starting; the first seed is {seed}"));
    let setup = Setup { executable: &executable, logs: logs.path(), scale, live: false, redis: false };
    let mut world = World::start(setup).await?;
    world.import(devices.good, devices.bad).await?;
    let mut report = Report { first_seed: seed, ..Report::default() };
    for n in 0..args.trials {
        let seed = seed.wrapping_add(n);
        let plan = Plan::draw(seed);
        let mut outcome = trial::play(&mut world, &plan, devices, at_most_once, scale).await?;
        if n.is_multiple_of(MIGRATION_EVERY) {
            outcome.mistakes.extend(migration::play(&world, &executable, seed).await?);
        }
        if !outcome.mistakes.is_empty() {
            let full = if args.full_scale { " --full-scale" } else { "" };
            let guarantee = words::word::<v1::Guarantee>(args.guarantee.into());
            let options = format!(" --devices {} --guarantee {guarantee}{full}", args.devices);
            let mistakes = [outcome.mistakes, vec![format!("{plan:?}")]].concat();
            return Err(Broken { seed, options, mistakes, logs: logs.keep().display().to_string() }.into());
        }
        note(&outcome.line(n + 1, seed));
        report.add(outcome);
    }
    world.stop().await;
    report.takeover_ms.sort_unstable();
    Ok(report)
}

impl Outcome {
    fn line(&self, n: u64, seed: u64) -> String {
        format!(
            "trial {n} (seed {seed}): {} kills, {} freezes, {} calls, {} duplicates of {} allowed, {} unconfirmed, longest \
             stall {:.1} s, {:.1} s in all",
            self.kills,
            self.freezes,
            self.calls,
            self.duplicates,
            self.allowed,
            self.unconfirmed,
            self.longest_stall.as_secs_f64(),
            self.length.as_secs_f64()
        )
    }
}

impl Report {
    fn add(&mut self, outcome: Outcome) {
        let millis = |d: Duration| d.as_millis() as u64;
        self.trials += 1;
        self.kills += outcome.kills;
        self.freezes += outcome.freezes;
        self.calls += outcome.calls;
        self.duplicates += outcome.duplicates;
        self.duplicates_allowed += outcome.allowed;
        self.unconfirmed += outcome.unconfirmed;
        self.takeover_ms.extend(outcome.takeovers.into_iter().map(millis));
        self.longest_stall_ms = self.longest_stall_ms.max(millis(outcome.longest_stall));
    }

    /// The given share of takeovers took at most so long.
    fn takeover(&self, share: f64) -> u64 {
        let last = self.takeover_ms.len().saturating_sub(1);
        self.takeover_ms.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }

    fn text(&self) -> String {
        format!(
            "all {} trials passed, from seed {}\n\
             kills {}, freezes {}, calls {}\n\
             duplicates {} of {} allowed, unconfirmed {}\n\
             work of {} killed senders was in other hands after {} ms (median), {} ms (95 %), {} ms (all)\n\
             longest time without an acceptance {} ms\n",
            self.trials,
            self.first_seed,
            self.kills,
            self.freezes,
            self.calls,
            self.duplicates,
            self.duplicates_allowed,
            self.unconfirmed,
            self.takeover_ms.len(),
            self.takeover(0.5),
            self.takeover(0.95),
            self.takeover(1.0),
            self.longest_stall_ms
        )
    }
}
