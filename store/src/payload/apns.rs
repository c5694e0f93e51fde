//! The payload of APNs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::json;
use crate::broadcast::Message;
use crate::ids::BroadcastId;

#[derive(Serialize)]
struct Payload<'a> {
    aps: Aps<'a>,
    /// A string, as in every other protocol.
    broadcast_id: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    data: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Aps<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    alert: Option<Alert<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sound: Option<&'a str>,
    /// Where nothing is shown, the app is woken to read the data.
    #[serde(rename = "content-available", skip_serializing_if = "Option::is_none")]
    content_available: Option<u8>,
}

#[derive(Serialize)]
struct Alert<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    title: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    body: &'a str,
}

/// The name of a sound has at most so many bytes: room for it is kept in what is measured.
pub const APNS_SOUND_BYTES: usize = 32;

/// The payload as JSON; `sound` is played with what is shown.
pub fn apns_payload(id: BroadcastId, message: &Message, sound: Option<&str>) -> String {
    let Message { title, body, data } = message;
    let shown = !(title.is_empty() && body.is_empty());
    let aps = Aps {
        alert: shown.then_some(Alert { title, body }),
        sound: sound.filter(|_| shown),
        content_available: (!shown).then_some(1),
    };
    json(&Payload { aps, broadcast_id: id.to_string(), data })
}
