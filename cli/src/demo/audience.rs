//! The devices of the demo, imported as a service would.

use bongsu_proto::v1;

use super::Args;
use crate::client::Client;
use crate::error::Failure;
use crate::stack::PROVIDER;

/// Rows in one message of the import.
const CHUNK: usize = 5_000;

/// Registers all devices. The simulator tells by the beginning of a token how to treat it.
pub async fn import(args: &Args, intake: &Client) -> Result<(), Failure> {
    let args = args.clone();
    let chunks = (0..args.devices).step_by(CHUNK).map(move |first| {
        let last = args.devices.min(first.saturating_add(CHUNK as u32));
        v1::ImportDevicesRequest { registrations: (first..last).map(|n| device(&args, n)).collect() }
    });
    // Not under the client's time-out: a million devices take longer than a call may.
    let mut devices = intake.devices();
    let report = devices
        .import_devices(tokio_stream::iter(chunks))
        .await
        .map_err(|status| intake.failed(status))?
        .into_inner();
    if report.rejected > 0 {
        return Err(anyhow::anyhow!(
            "{} devices were rejected: {:?}",
            report.rejected,
            report.errors.first()
        )
        .into());
    }
    Ok(())
}

/// The user of the nth device.
pub fn user(n: u32) -> String {
    format!("user-{n}")
}

/// Bad ones are spread over the whole audience.
fn device(args: &Args, n: u32) -> v1::DeviceRegistration {
    // With the live channel, who got it how is the question, and bad devices would be another one.
    let bad = if args.live.live { 0 } else { args.expired + args.failing };
    let every = args.devices.checked_div(bad).unwrap_or(u32::MAX).max(1);
    let kind = match (n.is_multiple_of(every), n / every) {
        (true, nth) if nth < args.expired => "expired",
        (true, nth) if nth < bad => "failing",
        _ => "device",
    };
    v1::DeviceRegistration {
        user_id: user(n),
        provider: PROVIDER.to_owned(),
        token: format!("{kind}-{n}"),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn there_are_as_many_bad_devices_as_asked_for() {
        for (devices, expired, failing) in
            [("10000", "100", "100"), ("7", "3", "4"), ("5", "0", "0"), ("9", "0", "2")]
        {
            let line = ["demo", "--devices", devices, "--expired", expired, "--failing", failing];
            let args = Line::parse_from(line).args;
            let count = |kind: &str| {
                (0..args.devices).filter(|n| device(&args, *n).token.starts_with(kind)).count().to_string()
            };
            assert_eq!((count("expired").as_str(), count("failing").as_str()), (expired, failing));
        }
    }
}
