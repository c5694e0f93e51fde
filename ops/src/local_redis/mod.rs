//! A private Redis for tests, `dev` and chaos, from the server that the system has.
//!
//! Like [`local_postgres`](crate::local_postgres), and simpler: a guard, `/bin/sh` with `guard.sh`, starts the server and waits on a pipe
//! from us. However we end, the kernel closes that pipe; then the guard kills the server and removes its directory. The server
//! listens on a Unix socket in that directory only, and keeps nothing on disk.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use tempfile::TempDir;

const GUARD: &str = include_str!("guard.sh");
/// The names of the server, the first that is there.
const SERVERS: [&str; 2] = ["redis-server", "valkey-server"];
/// Where to look beside `PATH`.
const USUAL_PLACES: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];
const SOCKET: &str = "redis.sock";
/// The bytes that a socket's path may have on every system we run on.
const MAX_SOCKET_PATH_BYTES: usize = 103;
/// A server that does not answer for so long after its start has failed.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Between two looks whether it answers.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Why there is no private Redis.
#[derive(Debug, thiserror::Error)]
pub enum LocalRedisError {
    #[error(
        "no Redis server on this machine (looked for redis-server and valkey-server on PATH and in the usual places): run .ci/redis, \
         or install it: apt-get install redis-server, dnf install valkey, brew install redis"
    )]
    NotInstalled,
    #[error("no place for a private Redis: set TMPDIR to a directory with space that this user can write to")]
    Directory(#[source] io::Error),
    #[error("the process that guards a private Redis could not be run as /bin/sh, or is gone: {0}")]
    Guard(#[source] io::Error),
    #[error("the private Redis did not start; its log ends with\n{log}")]
    Start { log: String },
}

/// A running private Redis. Dropping it kills the server, removes the directory, and returns when both are gone.
#[derive(Debug)]
pub struct LocalRedis {
    guard: Child,
    pipes: Mutex<Option<Pipes>>,
    dir: PathBuf,
    password: Option<String>,
}

#[derive(Debug)]
struct Pipes {
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl LocalRedis {
    /// Starts a server, which lets in whoever knows the password; blocks until it answers, some 50 ms.
    ///
    /// # Errors
    ///
    /// When there is no Redis, no place for its directory, or no start; each says what to do.
    pub fn start(password: Option<&str>) -> Result<Self, LocalRedisError> {
        let server = find()?;
        let dir = make_directory().map_err(LocalRedisError::Directory)?;
        fs::write(dir.path().join("redis.conf"), settings(dir.path(), password))
            .map_err(LocalRedisError::Directory)?;
        let mut guard = spawn_guard(&server, dir.path()).map_err(LocalRedisError::Guard)?;
        // From here on the guard removes it.
        let dir = dir.keep();
        let pipes = guard.stdin.take().zip(guard.stdout.take());
        let pipes = pipes.map(|(orders, answers)| Pipes { orders, answers: BufReader::new(answers) });
        let redis = Self { guard, pipes: Mutex::new(pipes), dir, password: password.map(str::to_owned) };
        redis.wait_for_guard()?;
        redis.wait_until_it_answers()?;
        Ok(redis)
    }

    /// The URL of the server, with the password.
    pub fn url(&self) -> String {
        let password = self.password.as_ref().map(|password| format!("?pass={password}")).unwrap_or_default();
        format!("redis+unix://{}{password}", self.socket().display())
    }

    /// The server's socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join(SOCKET)
    }

    /// Kills the server as a crash would: all that it knew is gone, and its connections end.
    ///
    /// # Errors
    ///
    /// When the guard is gone.
    pub fn kill_server(&self) -> Result<(), LocalRedisError> {
        self.order("kill")
    }

    /// Starts it again, empty; blocks until it answers.
    ///
    /// # Errors
    ///
    /// When it does not start, or the guard is gone.
    pub fn start_server(&self) -> Result<(), LocalRedisError> {
        self.order("start")?;
        self.wait_until_it_answers()
    }

    /// Stops it without a word (SIGSTOP): connections stay, and nobody answers.
    ///
    /// # Errors
    ///
    /// When the guard is gone.
    pub fn pause_server(&self) -> Result<(), LocalRedisError> {
        self.order("pause")
    }

    /// Lets it go on.
    ///
    /// # Errors
    ///
    /// When the guard is gone.
    pub fn resume_server(&self) -> Result<(), LocalRedisError> {
        self.order("resume")
    }

    /// The process id of the server now or last.
    pub fn server_pid(&self) -> Option<u32> {
        fs::read_to_string(self.dir.join("pid")).ok()?.trim().parse().ok()
    }

    fn order(&self, order: &str) -> Result<(), LocalRedisError> {
        if let Some(pipes) = self.pipes.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            writeln!(pipes.orders, "{order}").map_err(LocalRedisError::Guard)?;
        }
        self.wait_for_guard()
    }

    fn wait_for_guard(&self) -> Result<(), LocalRedisError> {
        let mut answer = String::new();
        if let Some(pipes) = self.pipes.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            pipes.answers.read_line(&mut answer).map_err(LocalRedisError::Guard)?;
        }
        if answer.is_empty() {
            return Err(LocalRedisError::Guard(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
    }

    fn wait_until_it_answers(&self) -> Result<(), LocalRedisError> {
        let started_at = Instant::now();
        while !answers(&self.socket()) {
            if started_at.elapsed() > START_TIMEOUT {
                let log = fs::read_to_string(self.dir.join("server.log")).unwrap_or_default();
                return Err(LocalRedisError::Start { log });
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for LocalRedis {
    fn drop(&mut self) {
        // The end of file that the guard waits for.
        drop(self.pipes.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        let ended = self.guard.wait();
        if !matches!(&ended, Ok(status) if status.success()) && self.dir.exists() {
            eprintln!(
                "warning: the private Redis in {} could not be cleaned up; stop the process {:?} if it is there, and remove the \
                 directory",
                self.dir.display(),
                self.server_pid(),
            );
        }
    }
}

fn find() -> Result<PathBuf, LocalRedisError> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> =
        env::split_paths(&path).chain(USUAL_PLACES.iter().map(PathBuf::from)).collect();
    SERVERS
        .iter()
        .flat_map(|server| places.iter().map(move |place| place.join(server)))
        .find(|server| server.is_file())
        .ok_or(LocalRedisError::NotInstalled)
}

/// In the system's directory for temporary files or, where a socket's path would be too long there, in /tmp. Nobody else can enter it:
/// there may be a password in its configuration.
fn make_directory() -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    let builder =
        builder.prefix("bongsu-redis-").rand_bytes(6).permissions(fs::Permissions::from_mode(0o700));
    let dir = builder.tempdir()?;
    if dir.path().join(SOCKET).as_os_str().len() <= MAX_SOCKET_PATH_BYTES {
        return Ok(dir);
    }
    builder.tempdir_in("/tmp")
}

fn settings(dir: &Path, password: Option<&str>) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let socket = quoted(&dir.join(SOCKET).display().to_string());
    let mut settings = format!("port 0\nunixsocket {socket}\nunixsocketperm 700\nsave \"\"\nappendonly no\n");
    if let Some(password) = password {
        settings += &format!("requirepass {}\n", quoted(password));
    }
    settings
}

/// Whether a server answers there, be it that it wants a password.
fn answers(socket: &Path) -> bool {
    let ask = || -> io::Result<bool> {
        let mut connection = UnixStream::connect(socket)?;
        connection.set_read_timeout(Some(LOOK_EVERY * 10))?;
        connection.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        connection.read_exact(&mut answer)?;
        Ok(&answer == b"+PONG" || &answer == b"-NOAU")
    };
    ask().unwrap_or(false)
}

/// In a process group of its own, so that Ctrl-C in a terminal does not reach it.
fn spawn_guard(server: &Path, dir: &Path) -> io::Result<Child> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(GUARD).arg("bongsu-redis-guard").arg(server).arg(dir);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C");
    command.current_dir(dir).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, test_kill_process};

    use super::*;

    fn is_there(pid: u32) -> bool {
        Pid::from_raw(pid as i32).is_some_and(|pid| test_kill_process(pid).is_ok())
    }

    #[test]
    fn a_server_and_its_directory_go_with_whoever_started_it_also_when_it_is_paused() {
        let redis = LocalRedis::start(Some("a \"quoted\" word")).unwrap();
        let (dir, pid) = (redis.dir.clone(), redis.server_pid().unwrap());
        assert!(answers(&redis.socket()) && is_there(pid));
        redis.pause_server().unwrap();
        drop(redis);
        assert!(!dir.exists() && !is_there(pid));
    }

    #[test]
    fn a_server_that_was_killed_starts_again_at_the_same_place() {
        let redis = LocalRedis::start(None).unwrap();
        let first = redis.server_pid().unwrap();
        redis.kill_server().unwrap();
        assert!(!answers(&redis.socket()) && !is_there(first));
        redis.start_server().unwrap();
        assert!(answers(&redis.socket()));
        assert_ne!(redis.server_pid(), Some(first));
    }
}
