//! The services as hidden subcommands: `bongsu provider-sim …`, `bongsu intake …`, `bongsu sender …`.
//!
//! They are not part of the operator's command line: their options and its global ones would get into each other's way,
//! and they bring their own logging and runtime.

use std::process::ExitCode;

use anyhow::Context as _;
use bongsu_ops::telemetry::{self, TelemetryArgs};
use bongsu_ops::{grpc, parent, shutdown};
use clap::Parser;
use serde_json::json;

use crate::output::{Output, complain};

/// First words of the command line that mean a service.
const NAMES: [&str; 1] = ["provider-sim"];

#[derive(Debug, Parser)]
#[command(name = "bongsu", version)]
pub enum Service {
    /// A push provider that can be told to misbehave and that counts duplicates
    ProviderSim(ProviderSim),
}

#[derive(Debug, clap::Args)]
pub struct ProviderSim {
    #[command(flatten)]
    config: provider_sim::Config,

    #[command(flatten)]
    telemetry: TelemetryArgs,

    #[command(flatten)]
    child: ChildArgs,
}

/// For whoever starts a service as a child process.
#[derive(Clone, Copy, Debug, clap::Args)]
#[group(skip)]
struct ChildArgs {
    /// Stop when stdin ends: the kernel ends it with the process that holds its other end, however that dies
    #[arg(long)]
    exit_with_parent: bool,

    /// Write the addresses that were bound to stdout, as one line of JSON
    #[arg(long)]
    announce: bool,
}

/// The service that the command line asks for, if it asks for one.
pub fn asked_for() -> Option<Service> {
    let first = std::env::args().nth(1)?;
    NAMES.contains(&first.as_str()).then(Service::parse)
}

/// Runs a service until it is told to stop.
pub fn run(service: Service) -> ExitCode {
    let result = match service {
        Service::ProviderSim(args) => run_provider_sim(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run_provider_sim(args: ProviderSim) -> anyhow::Result<()> {
    telemetry::init(&args.telemetry, "provider-sim")?;
    args.child.apply();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let shutdown = shutdown::on_signals();
        let listener = grpc::bind(args.config.listen, "--listen (BONGSU_SIM_LISTEN)").await?;
        if args.child.announce {
            let address = listener.local_addr().context("the listener has no address")?;
            let announced = Output { json: true }.object(&json!({ "http": address.to_string() }));
            announced.map_err(|failure| anyhow::anyhow!(failure.message()))?;
        }
        provider_sim::run(args.config, listener, shutdown).await
    })
}

impl ChildArgs {
    fn apply(self) {
        if self.exit_with_parent {
            parent::terminate_at_stdin_eof();
        }
    }
}
