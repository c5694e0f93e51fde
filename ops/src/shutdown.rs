//! Signals as a cancellation token: the first one asks for a clean end, the second one stops waiting for it.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit code of a process that an impatient SIGINT ended: 128 + the signal's number, as shells report it.
const EXIT_SIGINT: i32 = 130;
/// Exit code of a process that a second SIGTERM ended.
const EXIT_SIGTERM: i32 = 143;

/// A token that is cancelled by the first SIGTERM or SIGINT this process gets.
///
/// A second signal, of either kind, exits the process at once with 130 (SIGINT) or 143 (SIGTERM): a drain that takes
/// too long must not need SIGKILL. The handlers are in place when this returns, so no signal after it kills silently.
///
/// # Panics
///
/// Outside a tokio runtime with its I/O driver on, and where the operating system refuses a signal handler: a service
/// that cannot be stopped cleanly must not start.
pub fn on_signals() -> CancellationToken {
    let mut signals = Signals {
        interrupt: signal(SignalKind::interrupt()).expect("the SIGINT handler could not be installed"),
        terminate: signal(SignalKind::terminate()).expect("the SIGTERM handler could not be installed"),
    };
    let token = CancellationToken::new();
    let cancelled_by_signal = token.clone();
    tokio::spawn(async move {
        let (name, _) = signals.next().await;
        tracing::info!(signal = name, "stopping: finishing what is in flight; a second signal exits at once");
        cancelled_by_signal.cancel();
        let (name, code) = signals.next().await;
        tracing::warn!(signal = name, exit_code = code, "second signal: exiting without finishing");
        std::process::exit(code);
    });
    token
}

/// The two signals that stop us.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Waits for the next of them: its name, and the exit code if it is the last straw.
    async fn next(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.interrupt.recv() => ("SIGINT", EXIT_SIGINT),
            _ = self.terminate.recv() => ("SIGTERM", EXIT_SIGTERM),
        }
    }
}
