//! `bongsu explain`.

use bongsu_proto::v1;
use bongsu_proto::v1::explain_delivery_request::Recipient;

use crate::Context;
use crate::error::Failure;
use crate::view::{ExplanationView, explanation_text};
use crate::words::parse_id;

/// Why a user, or a device, did or did not get a broadcast
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("recipient").required(true))]
pub struct Args {
    /// Id of the broadcast
    #[arg(value_parser = parse_id)]
    broadcast: i64,

    /// All devices of this user, the newest 100
    #[arg(long, value_name = "USER", group = "recipient")]
    user: Option<String>,

    /// This device
    #[arg(long, value_name = "ID", value_parser = parse_id, group = "recipient")]
    device: Option<i64>,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let client = context.servers.sender().await?;
    let recipient = args.user.map(Recipient::UserId).or(args.device.map(Recipient::DeviceId));
    let request = v1::ExplainDeliveryRequest { broadcast_id: args.broadcast, recipient };
    let answer = client.call("explain the delivery", client.deliveries().explain_delivery(request)).await?;
    context.output.either(&ExplanationView::from(&answer), || explanation_text(&answer))
}
