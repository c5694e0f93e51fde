//! The services as hidden subcommands: `bongsu intake …`, `bongsu sender …`, `bongsu provider-sim …`; and `bongsu bare-loop …`,
//! which [`crate::bench`] compares the sender with.
//!
//! They are not part of the operator's command line: their options and its global ones would get into each other's way,
//! and they bring their own logging and runtime.

use std::process::ExitCode;

use anyhow::Context as _;
use bongsu_ops::telemetry::{self, TelemetryArgs};
use bongsu_ops::{grpc, parent, shutdown};
use clap::Parser;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use crate::bench::bare_loop;
use crate::output::{Output, complain};

/// First words of the command line that mean a service.
const NAMES: [&str; 4] = ["intake", "sender", "provider-sim", "bare-loop"];

#[derive(Debug, Parser)]
#[command(name = "bongsu", version)]
pub enum Service {
    /// Accepts broadcasts and device registrations over gRPC
    Intake {
        #[command(flatten)]
        config: Box<intake_svc::Config>,
        #[command(flatten)]
        child: ChildArgs,
    },
    /// Delivers broadcasts through push providers and answers what happened
    Sender {
        #[command(flatten)]
        config: Box<sender_svc::Config>,
        #[command(flatten)]
        child: ChildArgs,
    },
    /// A push provider that can be told to misbehave and that counts duplicates
    ProviderSim {
        #[command(flatten)]
        config: provider_sim::Config,
        #[command(flatten)]
        telemetry: TelemetryArgs,
        #[command(flatten)]
        child: ChildArgs,
    },
    /// The sender's client without a database, as fast as it goes; writes what it measured as one line of JSON
    BareLoop {
        #[command(flatten)]
        args: bare_loop::Args,
        #[command(flatten)]
        child: ChildArgs,
    },
}

/// For whoever starts a service as a child process; see [`crate::stack`].
#[derive(Clone, Copy, Debug, clap::Args)]
#[group(skip)]
pub struct ChildArgs {
    /// Stop when stdin ends: the kernel ends it with the process that holds its other end, however that dies
    #[arg(long)]
    exit_with_parent: bool,

    /// Write the addresses that were bound to stdout, as one line of JSON
    #[arg(long)]
    announce: bool,
}

/// The service that the command line asks for, if it asks for one.
pub fn asked_for() -> Option<Service> {
    let first = std::env::args_os().nth(1)?;
    NAMES.iter().any(|name| first == *name).then(Service::parse)
}

/// Runs a service until it is told to stop.
pub fn run(service: Service) -> ExitCode {
    let result = match service {
        // The runtimes of the services' own binaries.
        Service::Intake { config, child } => {
            block_on(Builder::new_multi_thread(), Box::pin(run_intake(*config, child)))
        }
        Service::Sender { config, child } => {
            block_on(Builder::new_current_thread(), Box::pin(run_sender(*config, child)))
        }
        Service::ProviderSim { config, telemetry, child } => {
            block_on(Builder::new_current_thread(), Box::pin(run_provider_sim(config, telemetry, child)))
        }
        // The sender's, since the two are compared.
        Service::BareLoop { args, child } => {
            block_on(Builder::new_current_thread(), Box::pin(run_bare_loop(args, child)))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn block_on(mut runtime: Builder, service: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    runtime.enable_all().build().context("the runtime could not be started")?.block_on(service)
}

async fn run_intake(config: intake_svc::Config, child: ChildArgs) -> anyhow::Result<()> {
    config.validate()?;
    telemetry::init(&config.telemetry, "intake-svc")?;
    telemetry::install_crypto();
    let shutdown = shutdown::on_signals();
    let listeners = intake_svc::Listeners {
        grpc: grpc::bind(config.listen, "--listen (BONGSU_INTAKE_LISTEN)").await?,
        admin: grpc::bind(config.admin_listen, "--admin-listen (BONGSU_INTAKE_ADMIN_LISTEN)").await?,
    };
    child.begin(&[("grpc", &listeners.grpc), ("admin", &listeners.admin)])?;
    intake_svc::run(config, listeners, shutdown).await.context("intake-svc stopped")
}

async fn run_sender(config: sender_svc::Config, child: ChildArgs) -> anyhow::Result<()> {
    config.validate()?;
    telemetry::init(&config.telemetry, "sender-svc")?;
    telemetry::install_crypto();
    let shutdown = shutdown::on_signals();
    let live = match config.channel.listen {
        Some(address) => Some(grpc::bind(address, "--live-listen (BONGSU_LIVE_LISTEN)").await?),
        None => None,
    };
    let listeners = sender_svc::Listeners {
        live,
        grpc: grpc::bind(config.listen, "--listen (BONGSU_SENDER_LISTEN)").await?,
        admin: grpc::bind(config.admin_listen, "--admin-listen (BONGSU_SENDER_ADMIN_LISTEN)").await?,
    };
    let live = listeners.live.as_ref().map(|live| ("live", live));
    let announced: Vec<_> =
        [("grpc", &listeners.grpc), ("admin", &listeners.admin)].into_iter().chain(live).collect();
    child.begin(&announced)?;
    sender_svc::run(config, listeners, shutdown).await.context("sender-svc stopped")
}

async fn run_provider_sim(
    config: provider_sim::Config,
    telemetry: TelemetryArgs,
    child: ChildArgs,
) -> anyhow::Result<()> {
    telemetry::init(&telemetry, "provider-sim")?;
    let shutdown = shutdown::on_signals();
    let listener = grpc::bind(config.listen, "--listen (BONGSU_SIM_LISTEN)").await?;
    child.begin(&[("http", &listener)])?;
    provider_sim::run(config, listener, shutdown).await
}

async fn run_bare_loop(args: bare_loop::Args, child: ChildArgs) -> anyhow::Result<()> {
    telemetry::install_crypto();
    child.begin(&[])?;
    let measured = bare_loop::run(args).await?;
    let written = Output { json: true }.object(&measured);
    written.map_err(|failure| anyhow::anyhow!("the result was not written: {}", failure.message()))
}

impl ChildArgs {
    /// Does what a parent process asks for, once the listeners are there.
    fn begin(self, listeners: &[(&str, &TcpListener)]) -> anyhow::Result<()> {
        if self.exit_with_parent {
            parent::terminate_at_stdin_eof();
        }
        if self.announce {
            let mut addresses = json!({});
            for (name, listener) in listeners {
                addresses[*name] = Value::String(listener.local_addr()?.to_string());
            }
            let announced = Output { json: true }.object(&addresses);
            announced.map_err(|failure| anyhow::anyhow!("no announcement: {}", failure.message()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_lines_are_sound_and_all_names_are_known() {
        let command = Service::command();
        command.clone().debug_assert();
        let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(names, NAMES);
    }
}
