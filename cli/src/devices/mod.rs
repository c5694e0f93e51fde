//! `bongsu devices`: the registrations.

use bongsu_proto::v1;
use serde_json::json;

use crate::Context;
use crate::error::Failure;
use crate::view::{DeviceView, device_details};
use crate::words::parse_id;

mod consent;
mod import;
mod line_map;
mod list;
mod register;
mod restore;
mod rows;
mod topic;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    List(list::Args),
    Get(GetArgs),
    Register(register::Args),
    Unregister(register::UnregisterArgs),
    Import(import::Args),
    Restore(restore::Args),
    Consent(consent::Args),
    /// Add devices to a topic, or take them out
    #[command(subcommand)]
    Topic(topic::Command),
}

/// One device with its topics
#[derive(Debug, clap::Args)]
pub struct GetArgs {
    /// Id of the device
    #[arg(value_parser = parse_id)]
    device: i64,
}

pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::List(args) => list::run(args, context).await,
        Command::Get(args) => get(args, context).await,
        Command::Register(args) => register::run(args, context).await,
        Command::Unregister(args) => register::unregister(args, context).await,
        Command::Import(args) => import::run(args, context).await,
        Command::Restore(args) => restore::run(args, context).await,
        Command::Consent(args) => consent::run(args, context).await,
        Command::Topic(command) => topic::run(command, context).await,
    }
}

async fn get(args: GetArgs, context: &Context) -> Result<(), Failure> {
    let client = context.servers.intake().await?;
    let request = v1::GetDeviceRequest { device_id: args.device };
    let answer = client.call("get the device", client.devices().get_device(request)).await?;
    let device = answer.device.unwrap_or_default();
    context.output.either(&DeviceView::whole(&device), || device_details(&device))
}

/// Prints a count under its name.
fn print_count(name: &str, count: i64, context: &Context) -> Result<(), Failure> {
    context.output.either(&json!({ name: count }), || format!("{name}: {}\n", crate::table::number(count)))
}
