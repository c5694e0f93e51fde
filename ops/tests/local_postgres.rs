//! A private PostgreSQL answers while we live, and nothing of it is left however we end.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in their helpers

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use bongsu_ops::local_postgres::{LocalPostgres, LocalPostgresError, Options, Shutdown};

/// Says to [`the_process_that_starts_one_and_ends`] how to end.
const HOW_TO_END: &str = "BONGSU_OPS_TEST_HOW_TO_END";
/// How long a condition may take to come true.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_private_cluster_answers_and_is_gone_after_drop() {
    let postgres = start();
    let pid = postgres.postmaster_pid().expect("a running server has a pid file");
    let dir = postgres.socket_dir().to_owned();
    UnixStream::connect(socket(&dir)).expect("the server accepts a connection");
    assert!(is_alive(pid), "the pid in the pid file is that of a process");
    let encoded = dir.to_str().unwrap().replace('/', "%2F");
    let url = format!("postgres://postgres@localhost:5432/shop?host={encoded}&sslmode=disable");
    assert_eq!(postgres.url("shop"), url);

    drop(postgres);
    assert!(!is_alive(pid), "Drop returns when the server is gone");
    assert!(!dir.exists(), "Drop returns when the directory is gone");
}

#[test]
fn two_clusters_run_side_by_side() {
    let (one, two) = (start(), start());
    assert_ne!(one.socket_dir(), two.socket_dir());
    assert_ne!(one.postmaster_pid().unwrap(), two.postmaster_pid().unwrap());
    drop(one);
    UnixStream::connect(socket(two.socket_dir())).expect("the other one is not disturbed");
}

#[test]
fn a_server_can_be_taken_down_and_started_again() {
    let postgres = start();
    let first = postgres.postmaster_pid().unwrap();
    postgres.stop_server().expect("stops");
    assert!(!is_alive(first));
    assert_eq!(postgres.postmaster_pid(), None);
    UnixStream::connect(socket(postgres.socket_dir())).expect_err("nobody listens");

    postgres.start_server().expect("starts");
    assert_ne!(postgres.postmaster_pid(), Some(first));
    UnixStream::connect(socket(postgres.socket_dir())).expect("the server accepts a connection");
}

#[test]
fn a_server_that_was_restarted_is_still_cleaned_up() {
    let postgres = start();
    let dir = postgres.socket_dir().to_owned();
    for shutdown in [Shutdown::Fast, Shutdown::Immediate] {
        let before = postgres.postmaster_pid().unwrap();
        postgres.restart_server(shutdown).expect("restarts");
        assert!(!is_alive(before), "{shutdown:?}");
        UnixStream::connect(socket(&dir)).expect("the server accepts a connection");
    }
    let pid = postgres.postmaster_pid().unwrap();
    drop(postgres);
    assert!(!is_alive(pid) && !dir.exists());
}

#[test]
fn a_server_that_was_stopped_by_a_signal_is_still_cleaned_up() {
    let postgres = start();
    let (pid, dir) = (postgres.postmaster_pid().unwrap(), postgres.socket_dir().to_owned());
    send("STOP", pid);
    drop(postgres);
    assert!(!is_alive(pid) && !dir.exists());
}

#[test]
fn a_cluster_whose_guard_was_killed_is_cleaned_up_by_drop() {
    let postgres = start();
    let (pid, dir) = (postgres.postmaster_pid().unwrap(), postgres.socket_dir().to_owned());
    let guard = children().into_iter().find(|child| command_line(*child).contains(dir.to_str().unwrap()));
    let Some(guard) = guard else { return }; // no /proc on this system
    send("KILL", guard);
    drop(postgres);
    assert!(!is_alive(pid) && !dir.exists());
}

#[test]
fn a_server_that_does_not_start_says_why_and_leaves_nothing() {
    let settings = vec![("shared_buffers".to_owned(), "plenty".to_owned())];
    let error = LocalPostgres::start(&Options { fsync: false, settings }).expect_err("a bad setting");
    let LocalPostgresError::Start { log } = &error else { panic!("another error: {error}") };
    assert!(log.contains(r#"invalid value for parameter "shared_buffers": "plenty""#), "{log}");
    assert!(error.to_string().contains("BONGSU_DATABASE_URL"), "{error}");
}

#[test]
fn nothing_is_left_after_a_normal_exit() {
    let status = ends_clean("exit", |_| {});
    assert!(status.success(), "{status}");
}

#[test]
fn nothing_is_left_after_an_exit_without_destructors() {
    let status = ends_clean("exit-at-once", |_| {});
    assert_eq!(status.code(), Some(7));
}

#[test]
fn nothing_is_left_after_a_panic() {
    let status = ends_clean("panic", |_| {});
    assert!(!status.success(), "{status}");
}

#[test]
fn nothing_is_left_after_an_abort() {
    let status = ends_clean("abort", |_| {});
    assert_eq!(status.signal(), Some(6), "SIGABRT");
}

#[test]
fn nothing_is_left_after_sigkill() {
    let status = ends_clean("wait", |child| child.kill().expect("kill"));
    assert_eq!(status.signal(), Some(9), "SIGKILL");
}

/// Not a test by itself: what [`ends_clean`] runs in a process of its own.
#[test]
fn the_process_that_starts_one_and_ends() {
    let Ok(how) = std::env::var(HOW_TO_END) else { return };
    let postgres = start();
    // On a line of its own: the test harness has left one unfinished.
    println!("\nstarted {} {}", postgres.postmaster_pid().unwrap(), postgres.socket_dir().display());
    match how.as_str() {
        "exit" => {}
        "exit-at-once" => std::process::exit(7),
        "panic" => panic!("as asked"),
        "abort" => std::process::abort(),
        _ => loop {
            std::thread::park(); // until somebody kills us
        },
    }
}

/// Has another process start a cluster and end as told, and waits until nothing of the cluster is left.
fn ends_clean(how: &str, end: impl FnOnce(&mut Child)) -> ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_that_starts_one_and_ends", "--nocapture"])
        .env(HOW_TO_END, how)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("this test binary runs again");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let started = lines.find_map(|line| parse_started(&line)).expect("the other process started a cluster");
    let (pid, dir) = started;
    end(&mut child);
    // Also fails to end, by hanging, if the server had inherited the other process's output.
    lines.for_each(drop);
    let status = child.wait().expect("the other process ends");
    wait_until("the server is gone", || !is_alive(pid));
    wait_until("the directory is gone", || !dir.exists());
    status
}

fn parse_started(line: &str) -> Option<(u32, PathBuf)> {
    let (pid, dir) = line.strip_prefix("started ")?.split_once(' ')?;
    Some((pid.parse().ok()?, dir.into()))
}

fn start() -> LocalPostgres {
    LocalPostgres::start(&Options::default()).expect("a private PostgreSQL")
}

fn socket(dir: &Path) -> PathBuf {
    dir.join(".s.PGSQL.5432")
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether there is such a process; a zombie, which a container's first process may never reap, is none.
fn is_alive(pid: u32) -> bool {
    let state = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().expect("ps");
    let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

fn send(signal: &str, pid: u32) {
    let status = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().expect("kill");
    assert!(status.success());
}

/// The children of this process, where the system has `/proc`.
fn children() -> Vec<u32> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<u32>>()).collect()
}

fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
