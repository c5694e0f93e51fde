//! The JSON of webhooks and web pushes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::json;
use crate::broadcast::Message;
use crate::ids::BroadcastId;

/// What every call of a broadcast carries beside the token.
#[derive(Serialize)]
struct Notification<'a> {
    /// A string, since JSON readers in JavaScript lose digits of 64-bit numbers.
    broadcast_id: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    title: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    body: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    data: &'a BTreeMap<String, String>,
}

/// The notification as JSON.
pub fn webhook_notification(id: BroadcastId, message: &Message) -> String {
    json(&Notification {
        broadcast_id: id.to_string(),
        title: &message.title,
        body: &message.body,
        data: &message.data,
    })
}
