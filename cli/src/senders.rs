//! `bongsu senders`.

use bongsu_proto::v1;

use crate::Context;
use crate::error::Failure;
use crate::table::Table;
use crate::view::{SenderView, sender_columns, sender_row};

/// Every sender heard of in the last hour: whether it lives, and what it holds
#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn run(_: Args, context: &Context) -> Result<(), Failure> {
    let client = context.servers.sender().await?;
    let output = context.output;
    let answer =
        client.call("list senders", client.deliveries().list_senders(v1::ListSendersRequest {})).await?;
    if output.json {
        return answer.senders.iter().try_for_each(|sender| output.object(&SenderView::from(sender)));
    }
    output.data(&Table::new(&sender_columns()).page(answer.senders.iter().map(sender_row).collect()))
}
