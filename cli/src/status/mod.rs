//! `bongsu status`.

use bongsu_proto::v1;

use crate::Context;
use crate::error::Failure;
use crate::view::{StatusView, status_text};
use crate::words::parse_id;

mod follow;

pub use follow::follow;

/// How far a broadcast is
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Id of the broadcast
    #[arg(value_parser = parse_id)]
    broadcast: i64,

    /// Follow it to its end: a bar on a terminal, lines elsewhere; with --json an object per change
    #[arg(long, short)]
    watch: bool,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    if args.watch { follow(args.broadcast, context).await } else { once(args.broadcast, context).await }
}

async fn once(broadcast_id: i64, context: &Context) -> Result<(), Failure> {
    let client = context.servers.sender().await?;
    let request = v1::GetStatusRequest { broadcast_id };
    let answer = client.call("get the status", client.deliveries().get_status(request)).await?;
    let status = answer.status.unwrap_or_default();
    context.output.either(&StatusView::from(&status), || status_text(&status))
}
