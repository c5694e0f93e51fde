//! A device.

use bongsu_proto::v1;
use serde::Serialize;

use super::{none_if_empty, time};
use crate::table::{Align, details, shortened};
use crate::times::to_the_second;
use crate::words::word;

/// How much of a token is shown to people, in columns: enough to recognise it, too little to use it. JSON has it whole.
const TOKEN_COLUMNS: usize = 16;

#[derive(Debug, Serialize)]
pub struct DeviceView<'a> {
    id: String,
    user_id: &'a str,
    provider: &'a str,
    token: &'a str,
    installation_id: Option<&'a str>,
    consent: bool,
    register_time: Option<String>,
    retire_time: Option<String>,
    retire_reason: Option<String>,
    retired_by: Option<String>,
    retire_code: Option<&'a str>,
    state: String,
    quarantine_time: Option<String>,
    quarantine_code: Option<&'a str>,
    quarantine_detail: Option<&'a str>,
    quarantined_by: Option<String>,
    /// Only where the call fills it.
    #[serde(skip_serializing_if = "Option::is_none")]
    topics: Option<&'a [String]>,
}

/// The answer to `devices register`.
#[derive(Debug, Serialize)]
pub struct RegisteredView<'a> {
    pub device: DeviceView<'a>,
    pub created: bool,
}

impl<'a> DeviceView<'a> {
    /// As lists have it: without topics.
    pub fn listed(device: &'a v1::Device) -> Self {
        let reason = word::<v1::RetireReason>(device.retire_reason);
        Self {
            id: device.id.to_string(),
            user_id: &device.user_id,
            provider: &device.provider,
            token: &device.token,
            installation_id: none_if_empty(&device.installation_id),
            consent: device.consent,
            register_time: time(device.register_time.as_ref()),
            retire_time: time(device.retire_time.as_ref()),
            retire_reason: Some(reason).filter(|reason| !reason.is_empty()),
            retired_by: broadcast(device.retired_by),
            retire_code: none_if_empty(&device.retire_code),
            state: word::<v1::DeviceState>(device.state),
            quarantine_time: time(device.quarantine_time.as_ref()),
            quarantine_code: none_if_empty(&device.quarantine_code),
            quarantine_detail: none_if_empty(&device.quarantine_detail),
            quarantined_by: broadcast(device.quarantined_by),
            topics: None,
        }
    }

    pub fn whole(device: &'a v1::Device) -> Self {
        Self { topics: Some(&device.topics), ..Self::listed(device) }
    }
}

pub fn device_columns() -> [(&'static str, Align); 8] {
    [
        ("ID", Align::Right),
        ("USER", Align::Left),
        ("PROVIDER", Align::Left),
        ("CONSENT", Align::Left),
        ("REGISTERED", Align::Left),
        ("STATE", Align::Left),
        ("FOR", Align::Left),
        ("TOKEN", Align::Left),
    ]
}

pub fn device_row(device: &v1::Device) -> Vec<String> {
    vec![
        device.id.to_string(),
        device.user_id.clone(),
        device.provider.clone(),
        yes_or_no(device.consent),
        to_the_second(device.register_time.as_ref()),
        word::<v1::DeviceState>(device.state),
        cause(device),
        shortened(&device.token, TOKEN_COLUMNS),
    ]
}

/// Everything about one device, for people.
pub fn device_details(device: &v1::Device) -> String {
    details(&[
        ("id", device.id.to_string()),
        ("user", device.user_id.clone()),
        ("provider", device.provider.clone()),
        ("token", shortened(&device.token, TOKEN_COLUMNS)),
        ("installation", device.installation_id.clone()),
        ("consent", yes_or_no(device.consent)),
        ("topics", device.topics.join(", ")),
        ("registered", to_the_second(device.register_time.as_ref())),
        ("retired", to_the_second(device.retire_time.as_ref())),
        ("quarantined", to_the_second(device.quarantine_time.as_ref())),
        ("for", cause(device)),
        ("said", device.quarantine_detail.clone()),
        ("by broadcast", broadcast(device.retired_by.max(device.quarantined_by)).unwrap_or_default()),
    ])
}

/// Why it is not live.
fn cause(device: &v1::Device) -> String {
    let reason = word::<v1::RetireReason>(device.retire_reason);
    let code = if reason.is_empty() { &device.quarantine_code } else { &device.retire_code };
    [reason.as_str(), code].join(" ").trim().to_owned()
}

fn broadcast(id: i64) -> Option<String> {
    (id != 0).then(|| id.to_string())
}

fn yes_or_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}
