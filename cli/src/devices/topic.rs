//! `bongsu devices topic subscribe|unsubscribe`.

use bongsu_proto::v1;
use serde_json::json;

use super::print_count;
use crate::Context;
use crate::error::Failure;
use crate::table::number;
use crate::words::parse_id;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Add devices to a topic
    Subscribe(Args),
    /// Take devices out of a topic
    Unsubscribe(Args),
}

#[derive(Debug, clap::Args)]
pub struct Args {
    topic: String,

    /// Ids of the devices
    #[arg(value_name = "DEVICE", required = true, value_parser = parse_id)]
    devices: Vec<i64>,
}

pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Subscribe(args) => subscribe(args, context).await,
        Command::Unsubscribe(args) => unsubscribe(args, context).await,
    }
}

async fn subscribe(args: Args, context: &Context) -> Result<(), Failure> {
    let client = context.servers.intake().await?;
    let request = v1::SubscribeTopicRequest { topic: args.topic, device_ids: args.devices };
    let answer = client.call("subscribe devices", client.devices().subscribe_topic(request)).await?;
    let unknown: Vec<String> = answer.unknown_device_ids.iter().map(ToString::to_string).collect();
    let object = json!({ "subscribed": answer.subscribed, "unknown_device_ids": unknown });
    if !unknown.is_empty() && !context.output.json {
        context.output.note(&format!("no live devices: {}", unknown.join(", ")));
    }
    context.output.either(&object, || format!("subscribed: {}\n", number(answer.subscribed)))
}

async fn unsubscribe(args: Args, context: &Context) -> Result<(), Failure> {
    let client = context.servers.intake().await?;
    let request = v1::UnsubscribeTopicRequest { topic: args.topic, device_ids: args.devices };
    let answer = client.call("unsubscribe devices", client.devices().unsubscribe_topic(request)).await?;
    print_count("unsubscribed", answer.unsubscribed, context)
}
