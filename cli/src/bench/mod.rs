//! `bongsu bench`: real processes on this machine, measured.
//!
//! * a scenario is a module with its arguments and a `run`: [`sustained`], [`burst`], [`snapshot`], [`history`], [`small`],
//!   [`providers`], [`fairness`], [`equal`], [`retries`], [`outage`], [`fan_out`], [`watchers`], [`senders`], [`retention`],
//!   [`control`], [`live`]
//! * [`world`] is the processes, [`audience`] the devices, [`options`] what all scenarios are told
//! * [`everyone`] sends to all devices, [`callers`] to one each; [`bare`] runs [`bare_loop`], the client alone, to compare with
//! * [`measure`] measures a run, [`observe`] looks at it, [`kernel`] at processes, [`provider`] at the simulator; [`steady`] and [`quantile`] compute
//! * [`report`] tells

mod audience;
mod bare;
pub mod bare_loop;
mod burst;
mod callers;
mod control;
mod equal;
mod everyone;
mod fairness;
mod fan_out;
mod history;
mod kernel;
mod live;
mod measure;
mod observe;
mod options;
mod outage;
mod provider;
mod providers;
mod quantile;
mod report;
mod retention;
mod retries;
mod senders;
mod small;
mod snapshot;
mod steady;
mod sustained;
mod watchers;
mod world;

use bongsu_ops::{shutdown, telemetry};
use clap::Subcommand;

use crate::Context;
use crate::error::Failure;
use crate::output::Output;
use options::Options;
use report::Report;

/// Measure Bongsu on this machine: its own PostgreSQL (with fsync), simulator, intake and senders
///
/// Everything shares this machine, so what is measured is how much work a delivery is, not what a network does to it. One
/// table at the end, or with --json one object; docs/benchmarks.md says what each number is.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Clone, Debug, Subcommand)]
enum Scenario {
    Sustained(sustained::Args),
    Burst(burst::Args),
    Snapshot(snapshot::Args),
    History(history::Args),
    Small(small::Args),
    Providers(providers::Args),
    Fairness(fairness::Args),
    Equal(equal::Args),
    Retries(retries::Args),
    Outage(outage::Args),
    FanOut(fan_out::Args),
    Watchers(watchers::Args),
    Senders(senders::Args),
    Retention(retention::Args),
    Control(control::Args),
    Live(live::Args),
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    refuse_debug(args.scenario.options(), output)?;
    kernel::check()?;
    telemetry::install_crypto();
    let shutdown = shutdown::on_signals();
    // Dropping what is under way kills it.
    let Some(report) = shutdown.run_until_cancelled(args.scenario.run(output)).await else {
        return Err(anyhow::anyhow!("stopped before the end").into());
    };
    let report = report?;
    output.either(&report, || report.text())
}

impl Scenario {
    fn options(&self) -> &Options {
        match self {
            Self::Sustained(args) => &args.large.options,
            Self::Burst(args) => &args.options,
            Self::Snapshot(args) => &args.large.options,
            Self::History(args) => &args.large.options,
            Self::Small(args) => &args.options,
            Self::Providers(args) => &args.options,
            Self::Fairness(args) => &args.large.options,
            Self::Equal(args) => &args.large.options,
            Self::Retries(args) => &args.large.options,
            Self::Outage(args) => &args.options,
            Self::FanOut(args) => &args.large.options,
            Self::Watchers(args) => &args.options,
            Self::Senders(args) => &args.large.options,
            Self::Retention(args) => &args.options,
            Self::Control(args) => &args.large.options,
            Self::Live(args) => &args.options,
        }
    }

    async fn run(&self, output: Output) -> anyhow::Result<Report> {
        match self {
            Self::Sustained(args) => sustained::run(args, output).await,
            Self::Burst(args) => burst::run(args, output).await,
            Self::Snapshot(args) => snapshot::run(args, output).await,
            Self::History(args) => history::run(args, output).await,
            Self::Small(args) => small::run(args, output).await,
            Self::Providers(args) => providers::run(args, output).await,
            Self::Fairness(args) => fairness::run(args, output).await,
            Self::Equal(args) => equal::run(args, output).await,
            Self::Retries(args) => retries::run(args, output).await,
            Self::Outage(args) => outage::run(args, output).await,
            Self::FanOut(args) => fan_out::run(args, output).await,
            Self::Watchers(args) => watchers::run(args, output).await,
            Self::Senders(args) => senders::run(args, output).await,
            Self::Retention(args) => retention::run(args, output).await,
            Self::Control(args) => control::run(args, output).await,
            Self::Live(args) => live::run(args, output).await,
        }
    }
}

/// Numbers of an unoptimised build have been quoted before somebody noticed.
fn refuse_debug(options: &Options, output: Output) -> anyhow::Result<()> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    anyhow::ensure!(
        options.allow_debug,
        "this executable was built without --release: build it with, or give --allow-debug to see that it runs"
    );
    output.note("numbers of a build without --release mean nothing");
    Ok(())
}
