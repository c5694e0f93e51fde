//! `intake-svc`: the intake alone, for images. The same program is in `bongsu` as a hidden subcommand.

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
async fn main() -> anyhow::Result<()> {
    Main::parse().cli.execute().await
}
