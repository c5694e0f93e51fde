//! A sender.

use bongsu_proto::v1;
use serde::Serialize;

use super::{none_if_empty, time};
use crate::table::{Align, number};
use crate::times::to_the_second;
use crate::words::word;

#[derive(Debug, Serialize)]
pub struct SenderView<'a> {
    id: &'a str,
    state: String,
    version: Option<&'a str>,
    start_time: Option<String>,
    heartbeat_time: Option<String>,
    heartbeat_age: String,
    calls_in_flight: i32,
    leased_batches: i64,
    leased_deliveries: i64,
}

impl<'a> From<&'a v1::Sender> for SenderView<'a> {
    fn from(sender: &'a v1::Sender) -> Self {
        Self {
            id: &sender.id,
            state: word::<v1::SenderState>(sender.state),
            version: none_if_empty(&sender.version),
            start_time: time(sender.start_time.as_ref()),
            heartbeat_time: time(sender.heartbeat_time.as_ref()),
            heartbeat_age: age(sender),
            calls_in_flight: sender.calls_in_flight,
            leased_batches: sender.leased_batches,
            leased_deliveries: sender.leased_deliveries,
        }
    }
}

pub fn sender_columns() -> [(&'static str, Align); 8] {
    [
        ("SENDER", Align::Left),
        ("STATE", Align::Left),
        ("VERSION", Align::Left),
        ("STARTED", Align::Left),
        ("HEARD", Align::Right),
        ("IN FLIGHT", Align::Right),
        ("BATCHES", Align::Right),
        ("DELIVERIES", Align::Right),
    ]
}

pub fn sender_row(sender: &v1::Sender) -> Vec<String> {
    vec![
        sender.id.clone(),
        word::<v1::SenderState>(sender.state),
        sender.version.clone(),
        to_the_second(sender.start_time.as_ref()),
        format!("{} ago", age(sender)),
        number(sender.calls_in_flight.into()),
        number(sender.leased_batches),
        number(sender.leased_deliveries),
    ]
}

/// In seconds, as proto JSON writes it.
fn age(sender: &v1::Sender) -> String {
    let age = sender.heartbeat_age.unwrap_or_default();
    format!("{}.{:03}s", age.seconds, age.nanos / 1_000_000)
}
