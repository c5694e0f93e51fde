//! `bongsu deliveries`.

mod export;

use std::path::PathBuf;

use bongsu_proto::v1;

use crate::Context;
use crate::client::Client;
use crate::error::Failure;
use crate::pages::{Limit, walk};
use crate::table::Table;
use crate::times::parse_time;
use crate::view::{DeliveryView, delivery_columns, delivery_row};
use crate::words;
use crate::words::parse_id;

use self::export::{Export, Format};

/// Deliveries in a page: the most the API gives.
const PAGE: i32 = 1_000;

/// What became of each device of a broadcast
///
/// With --format, all of them are exported, page by page.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Id of the broadcast
    #[arg(value_parser = parse_id)]
    broadcast: i64,

    /// Only those in this state; repeat for several
    #[arg(long = "state", value_name = "STATE", value_parser = words::parser::<v1::DeliveryState>())]
    states: Vec<v1::DeliveryState>,

    /// Only those of this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,

    /// Only those to devices of this user
    #[arg(long, value_name = "USER", conflicts_with = "devices")]
    user: Option<String>,

    /// Only those to this device; repeat for several
    #[arg(long = "device", value_name = "ID", value_parser = parse_id)]
    devices: Vec<i64>,

    /// Only those that died of this; repeat for several
    #[arg(long = "reason", value_name = "REASON", value_parser = words::parser::<v1::DeadReason>())]
    reasons: Vec<v1::DeadReason>,

    /// Only those whose last failed attempt ended with exactly this code: an HTTP status, "timeout", …
    #[arg(long, value_name = "CODE")]
    code: Option<String>,

    /// Only those settled not before this time
    #[arg(long, value_name = "RFC3339", value_parser = parse_time)]
    from: Option<prost_types::Timestamp>,

    /// Only those settled before this time
    #[arg(long, value_name = "RFC3339", value_parser = parse_time)]
    to: Option<prost_types::Timestamp>,

    /// Export all of them in this format
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "limit")]
    format: Option<Format>,

    /// Export to this file instead of stdout; it is there once it is whole
    #[arg(long, value_name = "FILE", requires = "format")]
    output: Option<PathBuf>,

    #[command(flatten)]
    limit: Limit,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let client = context.servers.sender().await?;
    let output = context.output;
    let filter = v1::ListDeliveriesRequest {
        broadcast_id: args.broadcast,
        states: args.states.iter().map(|state| *state as i32).collect(),
        provider: args.provider.unwrap_or_default(),
        user_id: args.user.unwrap_or_default(),
        device_ids: args.devices,
        dead_reasons: args.reasons.iter().map(|reason| *reason as i32).collect(),
        last_code: args.code.unwrap_or_default(),
        settled_from_time: args.from,
        settled_to_time: args.to,
        ..Default::default()
    };
    let fetch = async |page_size, page_token| {
        let request = v1::ListDeliveriesRequest { page_size, page_token, ..filter.clone() };
        page(&client, request).await
    };
    if let Some(format) = args.format {
        let mut export = Export::begin(format, args.output)?;
        let all = Limit { limit: 0 };
        walk(output, &all, PAGE, fetch, |deliveries: Vec<v1::Delivery>| export.page(&deliveries)).await?;
        return export.end(output);
    }
    let mut table = Table::new(&delivery_columns());
    let print = |deliveries: Vec<v1::Delivery>| {
        if output.json {
            return deliveries.iter().try_for_each(|delivery| output.object(&DeliveryView::from(delivery)));
        }
        output.data(&table.page(deliveries.iter().map(delivery_row).collect()))
    };
    walk(output, &args.limit, PAGE, fetch, print).await
}

async fn page(
    client: &Client,
    request: v1::ListDeliveriesRequest,
) -> Result<(Vec<v1::Delivery>, String), Failure> {
    let page = client.call("list deliveries", client.deliveries().list_deliveries(request)).await?;
    Ok((page.deliveries, page.next_page_token))
}
