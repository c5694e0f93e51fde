//! What all scenarios are told: how the provider behaves, how many senders there are, how often it is run.

use anyhow::ensure;
use bongsu_store::ProviderKind;
use serde::Serialize;

use super::world::World;
use crate::output::Output;

/// A provider that takes this long keeps more calls in flight.
const SLOW_MS: u32 = 10;
const IN_FLIGHT_FAST: u32 = 512;
const IN_FLIGHT_SLOW: u32 = 2_048;

/// Given or not; [`Options::resolve`] fills in what a scenario takes instead.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Mean time the provider takes to answer, in milliseconds [default: 0; burst: 30]
    #[arg(long, value_name = "MS")]
    latency_ms: Option<u32>,

    /// By how much an answer may come earlier or later, in milliseconds [default: 0; burst: 10]
    #[arg(long, value_name = "MS")]
    jitter_ms: Option<u32>,

    /// Share of calls that the provider answers with 503, from 0 to 1 [default: 0; burst: 0.03]
    #[arg(long, value_name = "SHARE")]
    transient: Option<f64>,

    /// Calls under way to the provider at most, per sender [default: 512, or 2048 where it takes 10 ms or more; burst: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    in_flight: Option<u32>,

    /// Senders
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    senders: u8,

    /// How often it is run; medians are told, and with --json every value
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,

    /// Call with reqwest, as for a webhook with a user name in its URL, instead of our own HTTP/2 connections
    #[arg(long)]
    reqwest: bool,

    /// Seed of what the provider does by chance
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,

    /// Run although this executable was built without optimisation: what it measures means nothing
    #[arg(long)]
    pub allow_debug: bool,
}

/// What scenarios with a large broadcast are told.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Large {
    /// Devices that are to be notified
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub devices: u64,

    #[command(flatten)]
    pub options: Options,
}

impl Large {
    /// The world of these devices and conditions.
    pub async fn world(&self, defaults: Defaults, output: Output) -> anyhow::Result<World> {
        World::start(self.options.resolve(defaults)?, self.devices, output).await
    }
}

/// What a scenario takes where nothing is given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defaults {
    pub latency_ms: u32,
    pub jitter_ms: u32,
    pub transient: f64,
    pub in_flight: Option<u32>,
}

/// What a run was made with.
#[derive(Clone, Debug, Serialize)]
pub struct Conditions {
    pub latency_ms: u32,
    pub jitter_ms: u32,
    pub transient: f64,
    /// Per sender.
    pub in_flight: u32,
    pub senders: u8,
    pub repeat: u32,
    pub reqwest: bool,
    pub kind: ProviderKind,
    /// Whether senders keep live connections.
    #[serde(skip)]
    pub live: bool,
    pub seed: u64,
}

impl Options {
    pub fn resolve(&self, defaults: Defaults) -> anyhow::Result<Conditions> {
        let latency_ms = self.latency_ms.unwrap_or(defaults.latency_ms);
        // A spread that nobody asked for follows the latency that somebody did.
        let jitter_ms = self.jitter_ms.unwrap_or(defaults.jitter_ms.min(latency_ms));
        let transient = self.transient.unwrap_or(defaults.transient);
        let usual = if latency_ms < SLOW_MS { IN_FLIGHT_FAST } else { IN_FLIGHT_SLOW };
        let in_flight = self.in_flight.or(defaults.in_flight).unwrap_or(usual);
        ensure!((0.0..=1.0).contains(&transient), "--transient {transient} is not from 0 to 1");
        ensure!(jitter_ms <= latency_ms, "--jitter-ms {jitter_ms} is more than --latency-ms {latency_ms}");
        Ok(Conditions {
            latency_ms,
            jitter_ms,
            transient,
            in_flight,
            senders: self.senders,
            repeat: self.repeat,
            reqwest: self.reqwest,
            kind: ProviderKind::Webhook,
            live: false,
            seed: self.seed,
        })
    }
}

impl Conditions {
    /// The simulator's arguments.
    pub fn provider_args(&self) -> Vec<String> {
        let flag = |name: &str, value: String| [name.to_owned(), value];
        let mut args = [
            flag("--latency-ms", self.latency_ms.to_string()),
            flag("--jitter-ms", self.jitter_ms.to_string()),
            flag("--transient", self.transient.to_string()),
            flag("--seed", self.seed.to_string()),
        ]
        .concat();
        if self.kind != ProviderKind::Webhook {
            args.push("--lenient".to_owned());
        }
        args
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn resolve(line: &[&str], defaults: Defaults) -> anyhow::Result<Conditions> {
        Line::parse_from([&["bench"], line].concat()).options.resolve(defaults)
    }

    #[test]
    fn a_slow_provider_gets_more_calls_in_flight_unless_told() {
        let in_flight = |line: &[&str], defaults| resolve(line, defaults).expect("valid").in_flight;
        let burst = Defaults { latency_ms: 30, in_flight: Some(1_024), ..Defaults::default() };
        assert_eq!(in_flight(&[], Defaults::default()), 512);
        assert_eq!(in_flight(&["--latency-ms", "30"], Defaults::default()), 2_048);
        assert_eq!(in_flight(&[], burst), 1_024);
        assert_eq!(in_flight(&["--in-flight", "7"], burst), 7);
    }

    #[test]
    fn what_the_provider_cannot_do_is_refused_by_name() {
        for (line, named) in
            [(&["--transient", "2"][..], "--transient"), (&["--jitter-ms", "1"], "--jitter-ms")]
        {
            let error = resolve(line, Defaults::default()).expect_err(named).to_string();
            assert!(error.starts_with(named), "{error}");
        }
    }
}
