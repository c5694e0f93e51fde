//! `bongsu devices register|unregister`.

use bongsu_proto::v1;
use bongsu_proto::v1::unregister_device_request::Device;

use super::consent::{OnOff, consent_value};
use crate::Context;
use crate::error::Failure;
use crate::view::{DeviceView, RegisteredView, device_details};
use crate::words::parse_id;

/// Register a device, or refresh its registration
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Whose device it is
    #[arg(long, value_name = "ID")]
    user: String,

    /// Name of the provider that reaches it
    #[arg(long, value_name = "NAME")]
    provider: String,

    /// The provider's address of the device
    #[arg(long)]
    token: String,

    /// The app installation, stable while tokens rotate
    #[arg(long, value_name = "ID")]
    installation: Option<String>,

    /// Whether it asked to be notified [default: on for a new device, unchanged for a known one]
    #[arg(long, value_name = "ON|OFF")]
    consent: Option<OnOff>,

    /// Subscribe it to this topic; repeat for several
    #[arg(long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
}

/// Retire a device, by its id or by provider and token
#[derive(Debug, clap::Args)]
pub struct UnregisterArgs {
    /// Id of the device
    #[arg(required_unless_present = "token", value_parser = parse_id)]
    device: Option<i64>,

    /// Name of the provider of --token
    #[arg(long, value_name = "NAME", requires = "token")]
    provider: Option<String>,

    /// The provider's address of the device
    #[arg(long, requires = "provider", conflicts_with = "device")]
    token: Option<String>,
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let client = context.servers.intake().await?;
    let registration = v1::DeviceRegistration {
        user_id: args.user,
        provider: args.provider,
        token: args.token,
        installation_id: args.installation.unwrap_or_default(),
        consent: args.consent.map(consent_value),
        topics: args.topics,
    };
    let request = v1::RegisterDeviceRequest { registration: Some(registration) };
    let answer = client.call("register the device", client.devices().register_device(request)).await?;
    let device = answer.device.unwrap_or_default();
    if context.output.json {
        let view = RegisteredView { device: DeviceView::whole(&device), created: answer.created };
        return context.output.object(&view);
    }
    context.output.note(if answer.created { "a new device" } else { "a known device, refreshed" });
    context.output.data(&device_details(&device))
}

pub async fn unregister(args: UnregisterArgs, context: &Context) -> Result<(), Failure> {
    let client = context.servers.intake().await?;
    let device = match (args.device, args.token) {
        (Some(id), _) => Device::DeviceId(id),
        (None, token) => Device::Token(v1::ProviderToken {
            provider: args.provider.unwrap_or_default(),
            token: token.unwrap_or_default(),
        }),
    };
    let request = v1::UnregisterDeviceRequest { device: Some(device) };
    let answer = client.call("unregister the device", client.devices().unregister_device(request)).await?;
    let device = answer.device.unwrap_or_default();
    context.output.either(&DeviceView::listed(&device), || device_details(&device))
}
