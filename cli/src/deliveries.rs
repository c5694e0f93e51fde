//! `bongsu deliveries`.

use bongsu_proto::v1;

use crate::Context;
use crate::error::Failure;
use crate::pages::{Limit, walk};
use crate::table::Table;
use crate::view::{DeliveryView, delivery_columns, delivery_row};
use crate::words;
use crate::words::parse_id;

/// Deliveries in a page: the most the API gives.
const PAGE: i32 = 1_000;

/// What became of each device of a broadcast
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
        ..Default::default()
    };
    let fetch = async |page_size, page_token| {
        let request = v1::ListDeliveriesRequest { page_size, page_token, ..filter.clone() };
        let page = client.call("list deliveries", client.deliveries().list_deliveries(request)).await?;
        Ok((page.deliveries, page.next_page_token))
    };
    let mut table = Table::new(&delivery_columns());
    let print = |deliveries: Vec<v1::Delivery>| {
        if output.json {
            return deliveries.iter().try_for_each(|delivery| output.object(&DeliveryView::from(delivery)));
        }
        output.data(&table.page(deliveries.iter().map(delivery_row).collect()))
    };
    walk(output, &args.limit, PAGE, fetch, print).await
}
