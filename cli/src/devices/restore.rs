//! `bongsu devices restore`.

use bongsu_proto::v1;
use bongsu_proto::v1::restore_devices_request::Devices;
use serde_json::json;

use crate::Context;
use crate::error::Failure;
use crate::table::number;
use crate::times::parse_time;
use crate::words::parse_id;

/// What was done to the devices.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Reason {
    /// They were put aside, since the provider said that token and credentials do not fit together
    Quarantined,
    /// They were retired, since the provider said that the token is gone
    Unregistered,
}

/// Undo what a provider's word did to devices: lift quarantine, or make retired devices live again
///
/// A device whose token or installation belongs to a newer one is left as it is. Asking again is harmless. What died meanwhile
/// is sent again by `bongsu dead-letters replay`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true))]
pub struct Args {
    /// Ids of devices
    #[arg(value_name = "DEVICE", value_parser = parse_id, group = "which", conflicts_with_all = ["provider", "reason", "code", "from", "to"])]
    devices: Vec<i64>,

    /// All devices of this provider that match
    #[arg(long, value_name = "NAME", group = "which", requires = "reason")]
    provider: Option<String>,

    /// What was done to them
    #[arg(long, value_name = "REASON", requires = "provider")]
    reason: Option<Reason>,

    /// Only those for exactly this code of the provider
    #[arg(long, value_name = "CODE", requires = "provider")]
    code: Option<String>,

    /// Not those of before this time
    #[arg(long, value_name = "RFC3339", value_parser = parse_time, requires = "provider")]
    from: Option<prost_types::Timestamp>,

    /// Only those of before this time
    #[arg(long, value_name = "RFC3339", value_parser = parse_time, requires = "provider")]
    to: Option<prost_types::Timestamp>,

    /// Tell how many there are, and change nothing
    #[arg(long)]
    validate_only: bool,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let client = context.servers.intake().await?;
    let validate_only = args.validate_only;
    let devices = Some(which(args));
    let (mut restored, mut superseded, mut page_token) = (0, 0, String::new());
    loop {
        let request = v1::RestoreDevicesRequest { devices: devices.clone(), validate_only, page_token };
        let answer = client.call("restore devices", client.devices().restore_devices(request)).await?;
        restored += answer.restored;
        superseded += answer.superseded;
        page_token = answer.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    let object = json!({ "restored": restored, "superseded": superseded, "validate_only": validate_only });
    context.output.either(&object, || {
        let done = if validate_only { "would be restored" } else { "restored" };
        format!(
            "{} {done}, {} belong to newer devices and stay as they are\n",
            number(restored),
            number(superseded)
        )
    })
}

fn which(args: Args) -> Devices {
    let Some(provider) = args.provider else {
        return Devices::Ids(v1::DeviceIds { device_ids: args.devices });
    };
    let state = match args.reason {
        Some(Reason::Quarantined) => v1::DeviceState::Quarantined,
        Some(Reason::Unregistered) => v1::DeviceState::Retired,
        None => v1::DeviceState::Unspecified,
    };
    let (code, from_time, to_time) = (args.code.unwrap_or_default(), args.from, args.to);
    Devices::Filter(v1::RestoreFilter { provider, state: state.into(), code, from_time, to_time })
}
