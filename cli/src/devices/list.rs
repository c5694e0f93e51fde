//! `bongsu devices list`.

use bongsu_proto::v1;

use crate::Context;
use crate::error::Failure;
use crate::pages::{Limit, walk};
use crate::table::Table;
use crate::view::{DeviceView, device_columns, device_row};
use crate::words;

/// Devices in a page: the most the API gives.
const PAGE: i32 = 1_000;

/// Devices in order of id
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only devices of this user
    #[arg(long, value_name = "ID")]
    user: Option<String>,

    /// Only devices of this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,

    /// Only devices subscribed to this topic
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,

    /// Only devices in this state [default: live and quarantined ones]
    #[arg(long, value_name = "STATE", value_parser = words::parser::<v1::DeviceState>())]
    state: Option<v1::DeviceState>,

    /// Retired devices too
    #[arg(long, conflicts_with = "state")]
    include_retired: bool,

    #[command(flatten)]
    limit: Limit,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let client = context.servers.intake().await?;
    let output = context.output;
    let filter = v1::ListDevicesRequest {
        user_id: args.user.unwrap_or_default(),
        provider: args.provider.unwrap_or_default(),
        topic: args.topic.unwrap_or_default(),
        include_retired: args.include_retired,
        state: args.state.unwrap_or_default().into(),
        ..Default::default()
    };
    let fetch = async |page_size, page_token| {
        let request = v1::ListDevicesRequest { page_size, page_token, ..filter.clone() };
        let page = client.call("list devices", client.devices().list_devices(request)).await?;
        Ok((page.devices, page.next_page_token))
    };
    let mut table = Table::new(&device_columns());
    let print = |devices: Vec<v1::Device>| {
        if output.json {
            return devices.iter().try_for_each(|device| output.object(&DeviceView::listed(device)));
        }
        output.data(&table.page(devices.iter().map(device_row).collect()))
    };
    walk(output, &args.limit, PAGE, fetch, print).await
}
