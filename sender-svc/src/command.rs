//! The command line, for our own binary and for `bongsu`, which holds the service as a subcommand.

use anyhow::Context as _;
use bongsu_ops::{admin, grpc, shutdown, telemetry};

use crate::config::Config;
use crate::server::{self, Listeners};

/// What the binary is asked to do; without a command it works as a sender.
#[derive(clap::Args, Debug, Clone)]
#[group(skip)]
#[command(args_conflicts_with_subcommands = false)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    config: Config,
}

/// What it can be asked beside sending.
#[derive(clap::Subcommand, Debug, Clone, Copy)]
pub enum Command {
    /// Ask the sender on this host whether it is ready; exit code 0 if so
    Healthcheck,
}

impl Cli {
    /// Does what was asked; sending ends with SIGTERM or SIGINT.
    pub async fn execute(self) -> anyhow::Result<()> {
        match self.command {
            None => serve(self.config).await,
            Some(Command::Healthcheck) => admin::healthcheck(self.config.admin_listen),
        }
    }
}

/// Starts logging, listens and works until SIGTERM or SIGINT.
///
/// # Errors
///
/// When the configuration is wrong, an address is taken, or Postgres does not answer in time.
pub async fn serve(config: Config) -> anyhow::Result<()> {
    config.validate()?;
    telemetry::init(&config.telemetry, "sender-svc")?;
    telemetry::install_crypto();
    let shutdown = shutdown::on_signals();
    let live = match config.channel.listen {
        Some(address) => Some(grpc::bind(address, "--live-listen (BONGSU_LIVE_LISTEN)").await?),
        None => None,
    };
    let listeners = Listeners {
        live,
        grpc: grpc::bind(config.listen, "--listen (BONGSU_SENDER_LISTEN)").await?,
        admin: grpc::bind(config.admin_listen, "--admin-listen (BONGSU_SENDER_ADMIN_LISTEN)").await?,
    };
    server::run(config, listeners, shutdown).await.context("sender-svc stopped")
}
