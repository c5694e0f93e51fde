//! The first signal asks, the second one exits.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in their helpers

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use bongsu_ops::shutdown;

/// Makes [`the_process_that_gets_signals`] run.
const SIGNALS: &str = "BONGSU_OPS_TEST_SIGNALS";

#[test]
fn the_second_signal_exits_with_its_own_code() {
    for (signals, code) in [(["TERM", "TERM"], 143), (["TERM", "INT"], 130), (["INT", "TERM"], 143)] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_process_that_gets_signals", "--nocapture"])
            .env(SIGNALS, "yes")
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test binary runs again");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
        for (signal, expected) in signals.into_iter().zip(["listening", "cancelled"]) {
            assert!(lines.any(|line| line == expected), "{expected}");
            let pid = child.id().to_string();
            let sent = Command::new("kill").args([format!("-{signal}"), pid]).status().unwrap();
            assert!(sent.success());
        }
        lines.for_each(drop);
        assert_eq!(child.wait().unwrap().code(), Some(code), "after {signals:?}");
    }
}

/// Not a test by itself: what gets the signals.
#[test]
fn the_process_that_gets_signals() {
    if std::env::var_os(SIGNALS).is_none() {
        return;
    }
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let token = shutdown::on_signals();
        println!("\nlistening");
        token.cancelled().await;
        println!("cancelled");
        std::future::pending::<()>().await;
    });
}
