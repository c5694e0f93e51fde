//! Messages of the API as JSON objects and as rows of tables.
//!
//! JSON uses the proto's field names (`snake_case`), ids as strings, counts as numbers, enums as short lower-case words,
//! times as RFC 3339 and durations as proto JSON does (`"12.5s"`); what is unset is `null`.

mod broadcast;
mod delivery;
mod device;
mod explanation;
mod preflight;
mod provider;
mod sender;
mod status;

pub use broadcast::{
    BroadcastView, SentView, audience, broadcast_columns, broadcast_details, broadcast_row,
    state as broadcast_state,
};
pub use delivery::{
    DeadLetterView, DeliveryView, dead_letter_columns, dead_letter_row, delivery_columns, delivery_row,
};
pub use device::{DeviceView, RegisteredView, device_columns, device_details, device_row};
pub use explanation::{ExplanationView, explanation_text};
pub use preflight::{PreflightView, preflight_text};
pub use provider::{ProviderView, provider_columns, provider_row};
pub use sender::{SenderView, sender_columns, sender_row};
pub use status::{StatusView, progress_text, status_text};

use crate::times;

/// An unset time is `null`.
fn time(time: Option<&prost_types::Timestamp>) -> Option<String> {
    time.and_then(times::rfc3339)
}

fn seconds(duration: &prost_types::Duration) -> f64 {
    duration.seconds as f64 + f64::from(duration.nanos) / 1e9
}

fn none_if_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
