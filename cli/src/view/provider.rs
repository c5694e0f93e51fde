//! A provider.

use bongsu_proto::v1;
use serde::Serialize;

use super::{none_if_empty, time};
use crate::table::Align;
use crate::times::to_the_second;
use crate::words::word;

#[derive(Debug, Serialize)]
pub struct ProviderView<'a> {
    name: &'a str,
    kind: &'a str,
    held_until: Option<String>,
    parked_since: Option<String>,
    park_reason: Option<String>,
    parked_code: Option<&'a str>,
    parked_detail: Option<&'a str>,
    probe_time: Option<String>,
    probes_failed: i32,
}

impl<'a> From<&'a v1::Provider> for ProviderView<'a> {
    fn from(provider: &'a v1::Provider) -> Self {
        let reason = word::<v1::ParkReason>(provider.park_reason);
        Self {
            name: &provider.name,
            kind: &provider.kind,
            held_until: time(provider.held_until.as_ref()),
            parked_since: time(provider.parked_since.as_ref()),
            park_reason: Some(reason).filter(|reason| !reason.is_empty()),
            parked_code: none_if_empty(&provider.parked_code),
            parked_detail: none_if_empty(&provider.parked_detail),
            probe_time: time(provider.probe_time.as_ref()),
            probes_failed: provider.probes_failed,
        }
    }
}

pub fn provider_columns() -> [(&'static str, Align); 6] {
    [
        ("NAME", Align::Left),
        ("KIND", Align::Left),
        ("HELD UNTIL", Align::Left),
        ("PARKED SINCE", Align::Left),
        ("REASON", Align::Left),
        ("SAID", Align::Left),
    ]
}

pub fn provider_row(provider: &v1::Provider) -> Vec<String> {
    vec![
        provider.name.clone(),
        provider.kind.clone(),
        to_the_second(provider.held_until.as_ref()),
        to_the_second(provider.parked_since.as_ref()),
        word::<v1::ParkReason>(provider.park_reason),
        [provider.parked_code.as_str(), &provider.parked_detail].join(" ").trim().to_owned(),
    ]
}
