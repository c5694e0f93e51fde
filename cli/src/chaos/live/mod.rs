//! `bongsu chaos --live`: clients of users with all habits, and the processes that serve them killed and frozen.
//!
//! * [`plan`] draws what happens from a seed, [`trial`] plays it, [`acts`] are done to the processes
//! * [`redis`] is where senders tell who is connected, and [`books`] what must hold at the end

mod acts;
mod books;
mod plan;
pub(super) mod redis;
mod trial;

use std::time::Duration;

use anyhow::Context as _;
use bongsu_ops::telemetry;
use serde::Serialize;

use super::plan::Scale;
use super::world::{Setup, World};
use super::{Args, Broken};
use crate::live::open_files;
use plan::Plan;
use trial::Outcome;

#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct LiveArgs {
    /// Trials of the live channel instead: clients that leave, come back elsewhere, acknowledge late or never, while senders,
    /// the intake and Postgres are killed, frozen and restarted
    #[arg(long)]
    pub live: bool,

    /// With --live: clients that are connected, of as many users as there are devices
    #[arg(long, requires = "live", default_value_t = 300, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,

    /// With --live: a private Redis tells who is connected, and is killed and frozen, too
    #[arg(long, requires = "live")]
    pub redis: bool,
}

/// What all trials came to.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub first_seed: u64,
    pub trials: u64,
    pub acts: u64,
    pub broadcasts: u64,
    /// Users and broadcasts, by how they got it.
    pub by_stream: u64,
    pub by_push: u64,
    pub by_both: u64,
    /// Of by_both: nobody had acknowledged, or too late.
    pub not_acknowledged: u64,
    pub came_again: u64,
    /// Connections that broke, and attempts in vain.
    pub breaks: u64,
    pub calls: u64,
    pub duplicates: u64,
    pub duplicates_allowed: u64,
    /// The longest that a client was without a connection, in milliseconds; on purpose up to 2,000.
    pub longest_absence_ms: u64,
}

/// Runs the trials; `note` is told of each.
pub async fn trials(args: Args, note: impl Fn(&str)) -> anyhow::Result<Report> {
    telemetry::install_crypto();
    let LiveArgs { clients, redis, .. } = args.live;
    anyhow::ensure!(clients <= args.devices, "--clients {clients} is more than --devices {}", args.devices);
    open_files::allow(clients.into())?;
    let scale = if args.full_scale { Scale::full() } else { Scale::tenth() };
    let first_seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let executable = args.executable.clone().map_or_else(std::env::current_exe, Ok)?;
    let logs = tempfile::Builder::new().prefix("bongsu-chaos-").tempdir()?;
    note(&format!("starting; the first seed is {first_seed}"));
    let setup = Setup { executable: &executable, logs: logs.path(), scale, live: true, redis };
    let mut world = World::start(setup).await?;
    world.import(args.devices, 0).await?;
    let mut report = Report { first_seed, ..Report::default() };
    for n in 0..args.trials {
        let seed = first_seed.wrapping_add(n);
        let plan = Plan::draw(seed, clients, redis, scale);
        let played = trial::play(&mut world, &plan, args.devices, scale).await;
        let mut outcome = played.with_context(|| format!("trial with seed {seed}"))?;
        if !outcome.mistakes.is_empty() {
            let mut mistakes = std::mem::take(&mut outcome.mistakes);
            mistakes.extend([plan.told(), outcome.line(n + 1, seed)]);
            let flags = [(redis, " --redis"), (args.full_scale, " --full-scale")];
            let flags: String = flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag).collect();
            let options = format!(" --live --clients {clients} --devices {}{flags}", args.devices);
            return Err(Broken { seed, options, mistakes, logs: logs.keep().display().to_string() }.into());
        }
        note(&outcome.line(n + 1, seed));
        report.add(&outcome);
    }
    world.stop().await;
    Ok(report)
}

impl Outcome {
    fn line(&self, n: u64, seed: u64) -> String {
        format!(
            "trial {n} (seed {seed}): {}; {} broadcasts, by stream {}, by push {}, by both {}, {} came again, {} breaks, \
             longest absence {:.1} s, {:.1} s in all",
            self.acts.join(", "),
            self.broadcasts,
            self.by_stream,
            self.by_push,
            self.by_both,
            self.came_again,
            self.breaks,
            self.longest_absence.as_secs_f64(),
            self.length.as_secs_f64()
        )
    }
}

impl Report {
    fn add(&mut self, outcome: &Outcome) {
        self.trials += 1;
        self.acts += outcome.acts.len() as u64;
        self.broadcasts += outcome.broadcasts;
        self.by_stream += outcome.by_stream;
        self.by_push += outcome.by_push;
        self.by_both += outcome.by_both;
        self.not_acknowledged += outcome.not_acknowledged;
        self.came_again += outcome.came_again;
        self.breaks += outcome.breaks;
        self.calls += outcome.calls;
        self.duplicates += outcome.duplicates;
        self.duplicates_allowed += outcome.allowed;
        let millis = |d: Duration| d.as_millis() as u64;
        self.longest_absence_ms = self.longest_absence_ms.max(millis(outcome.longest_absence));
    }

    pub fn text(&self) -> String {
        format!(
            "all {} trials passed, from seed {}\n\
             acts {}, broadcasts {}, calls {}, duplicates {} of {} allowed\n\
             by stream {}, by push {}, by both {} (of them {} without an acknowledgement in time)\n\
             {} came again after a break, {} breaks, longest absence {} ms\n",
            self.trials,
            self.first_seed,
            self.acts,
            self.broadcasts,
            self.calls,
            self.duplicates,
            self.duplicates_allowed,
            self.by_stream,
            self.by_push,
            self.by_both,
            self.not_acknowledged,
            self.came_again,
            self.breaks,
            self.longest_absence_ms
        )
    }
}
