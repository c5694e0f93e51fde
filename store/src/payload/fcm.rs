//! The content of FCM's messages (HTTP v1, `projects.messages`).

use std::collections::BTreeMap;

use serde::Serialize;

use super::json;
use crate::broadcast::Message;
use crate::ids::BroadcastId;

/// The parts of an FCM message that are the same for every device, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FcmContent {
    /// Title and body; `None` where there is neither: a message of data alone.
    pub notification: Option<String>,
    /// The data, and `broadcast_id` with it.
    pub data: String,
}

impl FcmContent {
    /// The bytes that count towards FCM's limit on a message's payload.
    pub(super) fn counted_bytes(&self) -> usize {
        self.notification.as_ref().map_or(0, String::len) + self.data.len()
    }
}

/// Whether FCM keeps a key of the data for itself, and refuses a message that has it.
///
/// Google's pages name `from`, `message_type`, `gcm`, and prefixes, `google` in one place and `google.` in another: here what
/// any of them names.
pub fn is_reserved_by_fcm(key: &str) -> bool {
    matches!(key, "from" | "message_type" | "gcm") || key.starts_with("google") || key.starts_with("gcm.")
}

#[derive(Serialize)]
struct Notification<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    title: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    body: &'a str,
}

/// Title, body and data of a message for FCM.
pub fn fcm_content(id: BroadcastId, message: &Message) -> FcmContent {
    let Message { title, body, data } = message;
    let shown = !(title.is_empty() && body.is_empty());
    let id = id.to_string();
    let mut entries: BTreeMap<&str, &str> = data.iter().map(|(k, v)| (&**k, &**v)).collect();
    entries.insert("broadcast_id", &id);
    FcmContent { notification: shown.then(|| json(&Notification { title, body })), data: json(&entries) }
}
