//! Ending with the process that started us, however that one ends.
//!
//! The parent gives us a pipe as stdin and keeps its other end. The kernel closes that with the parent, even after a
//! SIGKILL; `PR_SET_PDEATHSIG` would fire when the parent's *thread* ends.

use std::io::Read as _;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

/// How long we may take to drain when nobody is left to want it; then the second signal, see [`crate::shutdown`].
const PATIENCE: Duration = Duration::from_secs(15);

/// Sends this process SIGTERM once stdin is at its end, and again a little later if it is still there: what that does
/// is up to [`crate::shutdown::on_signals`]. Before its handlers are in place the first one ends the process.
pub fn terminate_at_stdin_eof() {
    std::thread::spawn(|| {
        let mut ignored = [0; 64];
        let mut stdin = std::io::stdin().lock();
        // An error is an end, too; an interrupted read is none.
        while match stdin.read(&mut ignored) {
            Ok(read) => read > 0,
            Err(error) => error.kind() == std::io::ErrorKind::Interrupted,
        } {}
        tracing::info!("the process that started this one is gone");
        for _ in 0..2 {
            // The only errors are that we are not there, or may not signal ourselves.
            let _ = kill_process(getpid(), Signal::TERM);
            std::thread::sleep(PATIENCE);
        }
    });
}
