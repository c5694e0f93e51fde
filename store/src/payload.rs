//! How a message looks on the wire, per kind of provider: pure functions, called by intake to measure and by senders to
//! send, so that what was accepted is never too large later.

use serde::Serialize;
use std::collections::BTreeMap;

use crate::broadcast::Message;
use crate::ids::BroadcastId;
use crate::provider::ProviderKind;

/// What every webhook call of a broadcast carries beside the token.
#[derive(Serialize)]
struct WebhookNotification<'a> {
    /// A string, since JSON readers in JavaScript lose digits of 64-bit numbers.
    broadcast_id: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    title: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    body: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    data: &'a BTreeMap<String, String>,
}

/// The notification as JSON in UTF-8 (not \u escapes: those triple Korean text).
pub fn webhook_notification(id: BroadcastId, message: &Message) -> String {
    let notification = WebhookNotification {
        broadcast_id: id.to_string(),
        title: &message.title,
        body: &message.body,
        data: &message.data,
    };
    serde_json::to_string(&notification).expect("strings and maps of strings always serialise")
}

/// A message's encoded size at a kind of provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodedSize {
    pub kind: ProviderKind,
    pub bytes: usize,
    pub limit: usize,
}

/// The encoded sizes at every kind of provider, measured as it will be sent.
pub fn encoded_sizes(message: &Message) -> Vec<EncodedSize> {
    // The longest id, so that the size does not depend on when it is measured.
    let longest = BroadcastId(i64::MAX);
    vec![EncodedSize {
        kind: ProviderKind::Webhook,
        bytes: webhook_notification(longest, message).len(),
        limit: ProviderKind::Webhook.max_notification_bytes(),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn korean_text_is_measured_and_sent_as_utf8() {
        let message = Message { title: "봉수".into(), body: String::new(), data: BTreeMap::new() };
        assert_eq!(webhook_notification(BroadcastId(7), &message), r#"{"broadcast_id":"7","title":"봉수"}"#,);
        let size = encoded_sizes(&message)[0];
        assert_eq!(size.bytes, r#"{"broadcast_id":"9223372036854775807","title":"봉수"}"#.len());
    }
}
