//! All of Bongsu on this machine, for `dev` and `demo`: Postgres, provider-sim, an intake and senders, each a process of
//! its own, so that they can be killed like real ones.
//!
//! Nothing outlives us, even if we are killed: children watch their stdin, and so does the guard of the private Postgres.

use std::fs::Permissions;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use bongsu_ops::local_postgres::{self, LocalPostgres};
use bongsu_store::ProviderKind;
use tempfile::TempDir;

use crate::migrate::migrate;

mod live;
mod process;
mod providers;

pub use process::{Process, stop_all};

/// The name of the provider that is the simulator.
pub const PROVIDER: &str = "push";
/// Name of the database in a private Postgres.
const DATABASE: &str = "bongsu";
/// Any free port, on this machine only.
pub const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// How long a process may take to drain.
const STOP_PATIENCE: Duration = Duration::from_secs(20);

/// What to start, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// `bongsu` itself.
    pub executable: PathBuf,
    /// An existing database; none: a private Postgres.
    pub database_url: Option<String>,
    /// Whether the private Postgres waits for the disk: true where speed is shown.
    pub fsync: bool,
    /// More settings of the private Postgres.
    pub postgres_settings: Vec<(String, String)>,
    pub intake: SocketAddr,
    pub intake_admin: SocketAddr,
    pub provider_sim: SocketAddr,
    /// A directory for the processes' logs; none: they log to our stderr.
    pub logs: Option<PathBuf>,
    /// What they log, as in `--log`.
    pub log_filter: String,
    /// More arguments for each: `--latency-ms 30` for the simulator, say.
    pub intake_args: Vec<String>,
    pub provider_sim_args: Vec<String>,
    /// Whether senders call with reqwest, as they do where there is a user name in the URL of a webhook.
    pub reqwest: bool,
    /// Which protocol senders speak with the simulator.
    pub kind: ProviderKind,
    /// Whether senders keep live connections; [`Stack::live_token`] makes tokens for them.
    pub live: bool,
}

impl Options {
    /// A private Postgres with fsync, any free ports, warnings to our stderr.
    ///
    /// # Errors
    ///
    /// When the system does not say which executable we are.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            executable: std::env::current_exe().context("which executable is this?")?,
            database_url: None,
            fsync: true,
            postgres_settings: Vec::new(),
            intake: ANY_PORT,
            intake_admin: ANY_PORT,
            provider_sim: ANY_PORT,
            logs: None,
            log_filter: "warn".to_owned(),
            intake_args: Vec::new(),
            provider_sim_args: Vec::new(),
            reqwest: false,
            kind: ProviderKind::Webhook,
            live: false,
        })
    }
}

/// Where a sender listens, and what else it is told.
#[derive(Clone, Debug)]
pub struct SenderOptions {
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    /// For live connections, where [`Options::live`] wants them.
    pub live: SocketAddr,
    /// More arguments, `--in-flight 256` for example.
    pub args: Vec<String>,
}

impl Default for SenderOptions {
    fn default() -> Self {
        Self { listen: ANY_PORT, admin: ANY_PORT, live: ANY_PORT, args: Vec::new() }
    }
}

/// What runs but the senders, which are their caller's: [`Stack::spawn_sender`].
///
/// Dropping it kills the processes and stops the private Postgres, blocking for about a second; [`Stack::stop`] lets
/// them drain.
#[derive(Debug)]
pub struct Stack {
    // Before `postgres`, so that they are dropped first.
    pub intake: Process,
    pub provider_sim: Process,
    options: Options,
    database_url: String,
    senders_spawned: AtomicU32,
    intakes_spawned: AtomicU32,
    postgres: Option<Arc<LocalPostgres>>,
    /// The providers file with what it names, where there is one; removed with us.
    providers: Option<(PathBuf, TempDir)>,
    live: live::Keys,
}

impl Stack {
    /// Starts Postgres where needed, brings the schema up to date, and starts the simulator and the intake. They are
    /// ready when this returns.
    ///
    /// # Errors
    ///
    /// When one of them does not start; what was started before it is stopped.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let live = live::Keys::make()?;
        let (postgres, database_url) = database(&options).await?;
        migrate(&database_url).await?;
        let provider_sim = async {
            let args = [&listen("--listen", options.provider_sim)[..], &options.provider_sim_args].concat();
            start(&options, "provider-sim", "provider-sim", args, None).await
        };
        let intake = start_intake(&options, "intake", &database_url);
        let (provider_sim, intake) = tokio::try_join!(provider_sim, intake)?;
        let providers = match options.kind {
            ProviderKind::Webhook => None,
            kind => {
                let directory = private_directory("bongsu-providers-")?;
                let file = providers::write(kind, provider_sim.address(), directory.path()).await?;
                Some((file, directory))
            }
        };
        Ok(Self {
            intake,
            provider_sim,
            options,
            database_url,
            senders_spawned: AtomicU32::new(0),
            intakes_spawned: AtomicU32::new(1),
            postgres: postgres.map(Arc::new),
            providers,
            live,
        })
    }

    /// Starts one more sender, which is ready when this returns. It is the caller's: to kill, or to stop before
    /// [`Stack::stop`].
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub async fn spawn_sender(&self, sender: SenderOptions) -> anyhow::Result<Process> {
        let name = format!("sender-{}", self.senders_spawned.fetch_add(1, Ordering::Relaxed) + 1);
        let provider = match &self.providers {
            None => ["--webhook".to_owned(), format!("{PROVIDER}={}", self.push_url())],
            Some((file, _)) => ["--providers".to_owned(), file.display().to_string()],
        };
        let mut args = [listen("--listen", sender.listen), listen("--admin-listen", sender.admin)].concat();
        if self.options.live {
            args.extend(listen("--live-listen", sender.live));
            args.extend(["--live-jwks".to_owned(), self.live_jwks().display().to_string()]);
        }
        let args = [args, provider.to_vec(), sender.args].concat();
        start(&self.options, "sender", &name, args, Some(&self.database_url)).await
    }

    /// Starts another intake: for the place of one that was killed, or beside the first.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub async fn spawn_intake(&self) -> anyhow::Result<Process> {
        let name = format!("intake-{}", self.intakes_spawned.fetch_add(1, Ordering::Relaxed) + 1);
        start_intake(&self.options, &name, &self.database_url).await
    }

    /// Where the simulator takes pushes, as senders write it.
    pub fn push_url(&self) -> String {
        let user = if self.options.reqwest { "bongsu@" } else { "" };
        format!("h2c://{user}{}/push", self.provider_sim.address())
    }

    /// A token of this user for the live channel, good for hours; one that is refused, where there can be no such user.
    pub fn live_token(&self, user: &str) -> String {
        self.live.token(user)
    }

    /// The file with the key of these tokens; gone with the stack.
    pub fn live_jwks(&self) -> &Path {
        self.live.jwks()
    }

    /// With a password, if it was given with one.
    pub fn database_url(&self) -> &str {
        &self.database_url
    }

    /// The private Postgres, if there is one.
    pub fn postgres(&self) -> Option<&Arc<LocalPostgres>> {
        self.postgres.as_ref()
    }

    /// Lets the senders drain, then the intake and the simulator, then stops the private Postgres and removes it.
    pub async fn stop(self, senders: Vec<Process>) {
        let Self { mut intake, mut provider_sim, postgres, .. } = self;
        let mut senders = senders;
        stop_all(&mut senders, STOP_PATIENCE).await; // they need the others to finish what is in flight
        stop_all([&mut intake, &mut provider_sim], STOP_PATIENCE).await;
        // Blocks until the server is down.
        let _ = tokio::task::spawn_blocking(move || drop(postgres)).await;
    }
}

/// A directory for secrets, which nobody else can enter; removed with what is returned.
fn private_directory(prefix: &str) -> std::io::Result<TempDir> {
    tempfile::Builder::new().prefix(prefix).permissions(Permissions::from_mode(0o700)).tempdir()
}

async fn database(options: &Options) -> anyhow::Result<(Option<LocalPostgres>, String)> {
    if let Some(url) = &options.database_url {
        return Ok((None, url.clone()));
    }
    let postgres =
        local_postgres::Options { fsync: options.fsync, settings: options.postgres_settings.clone() };
    let postgres = tokio::task::spawn_blocking(move || LocalPostgres::start(&postgres)).await??;
    bongsu_store::create_database(&postgres.url("postgres"), DATABASE, None).await?;
    let url = postgres.url(DATABASE);
    Ok((Some(postgres), url))
}

async fn start_intake(options: &Options, name: &str, database_url: &str) -> anyhow::Result<Process> {
    let listen = [listen("--listen", options.intake), listen("--admin-listen", options.intake_admin)];
    let args = [&listen.concat()[..], &options.intake_args].concat();
    start(options, "intake", name, args, Some(database_url)).await
}

async fn start(
    options: &Options,
    service: &'static str,
    name: &str,
    args: Vec<String>,
    database_url: Option<&str>,
) -> anyhow::Result<Process> {
    let log = ["--log".to_owned(), options.log_filter.clone()];
    Process::start(process::Spec {
        executable: &options.executable,
        service,
        name: name.to_owned(),
        args: [args, log.to_vec()].concat(),
        database_url,
        logs: options.logs.as_deref(),
    })
    .await
}

fn listen(option: &str, address: SocketAddr) -> Vec<String> {
    vec![option.to_owned(), address.to_string()]
}
