//! A service of ours as a child process of this executable.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use bongsu_ops::{access, admin};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// How long a process may take to bind its ports.
const ANNOUNCE_PATIENCE: Duration = Duration::from_secs(20);
/// How long it may take from there to being ready.
const READY_PATIENCE: Duration = Duration::from_secs(45);
const READY_POLL: Duration = Duration::from_millis(25);
/// The longest announcement, in bytes.
const MAX_ANNOUNCEMENT: u64 = 4 * 1024;
/// How much of the end of a log an error shows, in lines.
const LOG_TAIL_LINES: usize = 15;

/// What to start.
#[derive(Debug)]
pub(super) struct Spec<'a> {
    pub executable: &'a Path,
    /// The hidden subcommand.
    pub service: &'static str,
    /// For messages and the name of the log: `sender-2`.
    pub name: String,
    pub args: Vec<String>,
    pub database_url: Option<&'a str>,
    /// A directory for its log; none: it logs to our stderr.
    pub logs: Option<&'a Path>,
}

/// A running service. It ends with us, however we end, because its stdin does; dropping this kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    /// Held, never written to: its end is the child's signal that we are gone. Apart from `child`, whose `wait` would
    /// close it.
    _stdin: Option<ChildStdin>,
    /// The port clients use: gRPC, or HTTP for the simulator.
    address: SocketAddr,
    admin: Option<SocketAddr>,
    live: Option<SocketAddr>,
    log: Option<PathBuf>,
}

/// What a service writes with `--announce`.
#[derive(Debug, Deserialize)]
struct Announcement {
    #[serde(alias = "grpc", alias = "http")]
    address: SocketAddr,
    admin: Option<SocketAddr>,
    live: Option<SocketAddr>,
}

impl Process {
    /// Starts it and waits until it is ready.
    pub(super) async fn start(spec: Spec<'_>) -> anyhow::Result<Self> {
        let log = spec.logs.map(|logs| logs.join(format!("{}.log", spec.name)));
        let stderr = match &log {
            Some(path) => {
                Stdio::from(File::create(path).with_context(|| format!("{} not created", path.display()))?)
            }
            None => Stdio::inherit(),
        };
        let mut command = Command::new(spec.executable);
        command.arg(spec.service).args(&spec.args).args(["--exit-with-parent", "--announce"]);
        // What protects a port of the host's own services would shut out the client that we are.
        for name in access::ENVIRONMENT.into_iter().chain(sender_svc::live::ENVIRONMENT) {
            command.env_remove(name);
        }
        if let Some(url) = spec.database_url {
            command.env("BONGSU_DATABASE_URL", url); // not an argument: those can be read by every user of the host
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).kill_on_drop(true);
        // Ctrl-C in a terminal goes to the whole foreground group: who is stopped when is ours to decide.
        command.process_group(0);
        let mut child = command.spawn().with_context(|| format!("{} could not be started", spec.name))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let unbound = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut process =
            Self { name: spec.name, child, _stdin: stdin, address: unbound, admin: None, live: None, log };
        let started = async {
            process.read_announcement(stdout).await?;
            process.wait_until_ready().await
        };
        match started.await {
            Ok(()) => Ok(process),
            Err(error) => {
                let log = process.log_tail();
                Err(if log.is_empty() { error } else { error.context(log) })
            }
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id; none once it has ended and was waited for.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// The port clients use: gRPC, or HTTP for the simulator.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL, as `--intake` and `--sender` take it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The port with `/ready` and `/metrics`; the simulator has none.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// The port for live connections, where it keeps any.
    pub fn live_address(&self) -> Option<SocketAddr> {
        self.live
    }

    /// The same as a URL.
    pub fn live_url(&self) -> Option<String> {
        self.live.map(|address| format!("http://{address}"))
    }

    /// Kills it on the spot, as a crash of its host would, and returns when it is gone.
    pub async fn kill9(&mut self) -> io::Result<ExitStatus> {
        self.child.start_kill()?;
        self.child.wait().await
    }

    /// Asks it to drain and end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends it any signal, `STOP` and `CONT` for example; one that has ended gets none.
    pub fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| id.try_into().ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, signal); // it has just ended, at worst
        }
    }

    /// Waits for its end.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Asks it to end and waits for that; kills it when it takes longer than `patience`.
    pub async fn stop(&mut self, patience: Duration) -> io::Result<ExitStatus> {
        self.terminate();
        match timeout(patience, self.child.wait()).await {
            Ok(ended) => ended,
            Err(_) => self.kill9().await,
        }
    }

    async fn read_announcement(&mut self, stdout: Option<ChildStdout>) -> anyhow::Result<()> {
        let mut line = String::new();
        let mut stdout = BufReader::new(stdout.context("a child without stdout")?.take(MAX_ANNOUNCEMENT));
        match timeout(ANNOUNCE_PATIENCE, stdout.read_line(&mut line)).await {
            Ok(Ok(0)) => {
                let status = self.child.wait().await?;
                bail!("{} ended at its start ({status})", self.name);
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error).with_context(|| format!("{} announced nothing", self.name)),
            Err(_) => bail!("{} bound no port within {} s", self.name, ANNOUNCE_PATIENCE.as_secs()),
        }
        let announcement: Announcement = serde_json::from_str(&line)
            .with_context(|| format!("{} announced `{}`, not its addresses", self.name, line.trim()))?;
        self.address = announcement.address;
        self.admin = announcement.admin;
        self.live = announcement.live;
        Ok(())
    }

    async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let Some(admin) = self.admin else { return Ok(()) };
        let deadline = Instant::now() + READY_PATIENCE;
        loop {
            let Err(error) = tokio::task::spawn_blocking(move || admin::healthcheck(admin)).await? else {
                return Ok(());
            };
            if Instant::now() > deadline {
                let patience = READY_PATIENCE.as_secs();
                return Err(error.context(format!("{} was not ready within {patience} s", self.name)));
            }
            tokio::select! {
                ended = self.child.wait() => bail!("{} ended at its start ({})", self.name, ended?),
                () = sleep(READY_POLL) => {}
            }
        }
    }

    /// The end of its log, with where it is; empty where it logs to our stderr.
    pub fn log_tail(&self) -> String {
        let Some(path) = &self.log else { return String::new() };
        let log = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n");
        format!("{} logged last, in {}:\n{tail}\n", self.name, path.display())
    }
}

/// Stops all of them at the same time, with `patience` for each.
pub async fn stop_all(processes: impl IntoIterator<Item = &mut Process>, patience: Duration) {
    let deadline = Instant::now() + patience;
    let mut processes: Vec<&mut Process> = processes.into_iter().collect();
    processes.iter().for_each(|process| process.terminate());
    for process in &mut processes {
        if timeout_at(deadline, process.wait()).await.is_err() {
            let _ = process.kill9().await; // nothing else can be done about it
        }
    }
}
