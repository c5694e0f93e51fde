//! `sender-svc`: the sender alone, for images. The same program is in `bongsu` as a hidden subcommand.

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(
    name = "sender-svc",
    version,
    about = "Delivers broadcasts through push providers and answers what happened"
)]
struct Main {
    #[command(flatten)]
    cli: sender_svc::Cli,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    Main::parse().cli.execute().await
}
