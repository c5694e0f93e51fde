//! A private PostgreSQL cluster for `demo`, `dev` and tests, from the server binaries the system has.
//!
//! A guard – `/bin/sh` with `guard.sh`, in a process group of its own – makes the cluster, starts the server, and then
//! waits on a pipe from us. However we end, by return, panic, abort or SIGKILL, the kernel closes that pipe; then the
//! guard stops the server and removes the directory. (`PR_SET_PDEATHSIG` would not do: it fires when the *thread*
//! that started the child ends.)
//!
//! The server listens on a Unix socket in its directory only, so clusters never meet over a port. PostgreSQL refuses
//! to run as root: there the guard runs as user `postgres`, else `nobody`.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

mod binaries;
mod error;
mod owner;
mod settings;

pub use error::LocalPostgresError;

/// What the guard runs; takes `run` or `clean`, the directory of the server binaries and that of the cluster.
const GUARD: &str = include_str!("guard.sh");
/// The bytes a Unix socket's path may have on every system we run on, without the final NUL (Linux: 107, macOS: 103).
const MAX_SOCKET_PATH_BYTES: usize = if cfg!(target_os = "linux") { 107 } else { 103 };
/// The socket's name in its directory; it carries the port, which is always the default one.
const SOCKET_NAME: &str = ".s.PGSQL.5432";

/// What kind of cluster.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether commits wait for the disk: true where speed is measured or shown, false in tests.
    pub fsync: bool,
    /// More settings, as in postgresql.conf; they override ours.
    pub settings: Vec<(String, String)>,
}

/// How a server that restarts goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Sessions are told and ended.
    Fast,
    /// As in a crash: nobody is told, and the next start recovers.
    Immediate,
}

/// A running private cluster. Dropping it stops the server, removes the directory, and returns when both are gone.
#[derive(Debug)]
pub struct LocalPostgres {
    guard: Child,
    /// None only while starting.
    pipes: Mutex<Option<Pipes>>,
    bin: PathBuf,
    dir: PathBuf,
    owner: Option<owner::User>,
}

/// How we talk to the guard. The end of `orders` is its order to clean up and go.
#[derive(Debug)]
struct Pipes {
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Pipes {
    /// Reads up to the guard's `ready`, or to `failed` or its end; what came before that is from the server's log.
    fn wait_until_ready(&mut self) -> Result<(), LocalPostgresError> {
        let mut log = String::new();
        for line in (&mut self.answers).lines() {
            match line.map_err(LocalPostgresError::Guard)?.as_str() {
                "ready" => return Ok(()),
                "failed" => break,
                line => log.extend([line, "\n"]),
            }
        }
        Err(LocalPostgresError::Start { log: log.trim_end().to_owned() })
    }
}

impl LocalPostgres {
    /// Makes and starts a cluster; blocks until it accepts connections (about a second).
    ///
    /// # Errors
    ///
    /// When there is no PostgreSQL of version 15 or later, no place for the directory, or no start; each says what to
    /// do.
    pub fn start(options: &Options) -> Result<LocalPostgres, LocalPostgresError> {
        let bin = binaries::find()?;
        let owner = owner::needed()?;
        let dir = owner::make_directory(owner.as_ref())?;
        let path = dir.path().to_owned();
        let settings = settings::file(options, &path)?;
        owner::write_file(&path.join("settings.conf"), &settings, owner.as_ref())?;

        let mut guard = spawn_guard("run", &bin, &path, owner.as_ref())?;
        // From here on the guard removes the directory, whether it starts the server or not.
        let _ = dir.keep();
        let pipes = guard.stdin.take().zip(guard.stdout.take()).ok_or(LocalPostgresError::NoPipe);
        let pipes = pipes.map(|(orders, answers)| Pipes { orders, answers: BufReader::new(answers) });
        let mut postgres = LocalPostgres { guard, pipes: Mutex::new(None), bin, dir: path, owner };
        let mut pipes = pipes?;
        pipes.wait_until_ready()?; // on failure, dropping `postgres` waits for the guard to have removed everything
        postgres.pipes = Mutex::new(Some(pipes));
        Ok(postgres)
    }

    /// Takes the server down as a crash would (no goodbye to clients, recovery at the next start), for tests of what
    /// happens then. Returns when it is down.
    ///
    /// # Errors
    ///
    /// When the guard is gone.
    pub fn stop_server(&self) -> Result<(), LocalPostgresError> {
        self.order("stop")
    }

    /// Starts the server again, on the same data and at the same URL. Returns when it accepts connections.
    ///
    /// # Errors
    ///
    /// When it does not start, or the guard is gone. After a SIGKILL of the postmaster it does not start until the
    /// last of its children has noticed; [`LocalPostgres::stop_server`] leaves none.
    pub fn start_server(&self) -> Result<(), LocalPostgresError> {
        self.order("start")
    }

    /// Restarts the server as `pg_ctl restart` does, for tests of what happens then. Returns when it accepts connections
    /// again.
    ///
    /// # Errors
    ///
    /// When it does not start again, or the guard is gone.
    pub fn restart_server(&self, shutdown: Shutdown) -> Result<(), LocalPostgresError> {
        self.order(match shutdown {
            Shutdown::Fast => "restart fast",
            Shutdown::Immediate => "restart immediate",
        })
    }

    fn order(&self, order: &str) -> Result<(), LocalPostgresError> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let pipes = pipes.as_mut().ok_or(LocalPostgresError::NoPipe)?;
        writeln!(pipes.orders, "{order}").map_err(LocalPostgresError::Guard)?;
        pipes.wait_until_ready()
    }

    /// The URL of `database` in this cluster, as user `postgres`, over the socket. It states port and TLS too, so that
    /// a `PGPORT` or `PGSSLMODE` in the environment changes nothing.
    pub fn url(&self, database: &str) -> String {
        let database = percent_encode(database.as_ref());
        let dir = percent_encode(self.dir.as_os_str());
        format!("postgres://postgres@localhost:5432/{database}?host={dir}&sslmode=disable")
    }

    /// The directory of the server's socket, as in libpq's `host`.
    pub fn socket_dir(&self) -> &Path {
        &self.dir
    }

    /// The process id of the server's first process now; none while it is down. For tests that break things.
    pub fn postmaster_pid(&self) -> Option<u32> {
        let file = fs::read_to_string(self.dir.join("data/postmaster.pid")).ok()?;
        file.lines().next()?.trim().parse().ok()
    }
}

impl Drop for LocalPostgres {
    fn drop(&mut self) {
        // The end of file that the guard waits for.
        drop(self.pipes.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        let ended = self.guard.wait();
        if matches!(&ended, Ok(status) if status.success()) || !self.dir.exists() {
            return;
        }
        // Somebody killed the guard: do its work with another one.
        let cleaned = spawn_guard("clean", &self.bin, &self.dir, self.owner.as_ref())
            .and_then(|mut guard| guard.wait().map_err(LocalPostgresError::Guard));
        if !matches!(&cleaned, Ok(status) if ExitStatus::success(status)) {
            eprintln!(
                "warning: the private PostgreSQL in {dir} could not be cleaned up; stop the process {pid:?} if it is \
                 there, and remove the directory",
                dir = self.dir.display(),
                pid = self.postmaster_pid(),
            );
        }
    }
}

/// Starts `guard.sh` as `owner`, in a process group of its own so that Ctrl-C in a terminal does not reach it, and
/// with an environment of its own so that no `PG…` variable does either. The standard library opens our end of the
/// pipe close-on-exec, so that no other child of ours holds it open.
fn spawn_guard(
    mode: &str,
    bin: &Path,
    dir: &Path,
    owner: Option<&owner::User>,
) -> Result<Child, LocalPostgresError> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(GUARD).arg("bongsu-postgres-guard").arg(mode).arg(bin).arg(dir);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C");
    for library_path in ["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"] {
        command.envs(std::env::var_os(library_path).map(|value| (library_path, value)));
    }
    command.current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(owner) = owner {
        command.uid(owner.uid).gid(owner.gid); // as root this also drops the supplementary groups
    }
    command.spawn().map_err(LocalPostgresError::Guard)
}

/// Everything but RFC 3986's unreserved characters as `%XX`.
fn percent_encode(text: &OsStr) -> String {
    let encode = |byte: &u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.as_bytes().iter().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_into_a_url_is_encoded() {
        assert_eq!(percent_encode("/tmp/bongsu-pg_1~".as_ref()), "%2Ftmp%2Fbongsu-pg_1~");
        assert_eq!(percent_encode("a b&c=봉".as_ref()), "a%20b%26c%3D%EB%B4%89");
    }
}
