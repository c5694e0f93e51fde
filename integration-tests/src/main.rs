//! `bongsu` under another name: what the tests start, stop and kill as processes of their own. Cargo builds the binaries of
//! a test's own package, and of no other.

use std::process::ExitCode;

fn main() -> ExitCode {
    bongsu_cli::main()
}
