//! `bongsu devices consent`.

use bongsu_proto::v1;
use bongsu_proto::v1::update_consent_request::Subject;

use super::print_count;
use crate::Context;
use crate::error::Failure;
use crate::words::parse_id;

/// Set the consent of one device, or of all devices of a user; withdrawn, it holds for broadcasts under way too
#[derive(Debug, clap::Args)]
pub struct Args {
    consent: OnOff,

    #[command(flatten)]
    subject: SubjectArgs,
}

#[derive(Debug, clap::Args)]
#[group(id = "subject", required = true, multiple = false)]
struct SubjectArgs {
    /// Of this device
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    device: Option<i64>,

    /// Of every live device of this user
    #[arg(long, value_name = "ID")]
    user: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OnOff {
    On,
    Off,
}

pub fn consent_value(consent: OnOff) -> bool {
    consent == OnOff::On
}

pub async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let client = context.servers.intake().await?;
    let subject = match (args.subject.device, args.subject.user) {
        (Some(id), _) => Subject::DeviceId(id),
        (None, user) => Subject::UserId(user.unwrap_or_default()),
    };
    let request = v1::UpdateConsentRequest { subject: Some(subject), consent: consent_value(args.consent) };
    let answer = client.call("update the consent", client.devices().update_consent(request)).await?;
    print_count("devices", answer.devices, context)
}
