//! `intake-svc`: the intake alone, for images. The same program is in `bongsu` as a hidden subcommand.

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "intake-svc", version, about = "Accepts broadcasts and device registrations over gRPC")]
struct Main {
    #[command(flatten)]
    cli: intake_svc::Cli,
}

#[tokio::main]
async fn main() -> ExitCode {
    match Main::parse().cli.execute().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}"); // without the backtrace that RUST_BACKTRACE adds to Debug
            ExitCode::FAILURE
        }
    }
}
