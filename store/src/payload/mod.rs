//! How a message looks on the wire, per kind of provider: pure functions, called by intake to measure and by senders to
//! send, so that what was accepted is never too large later. JSON is UTF-8 (no \u escapes: those triple Korean text).

mod apns;
mod fcm;
mod webhook;

use serde::Serialize;

use crate::broadcast::Message;
use crate::ids::BroadcastId;
use crate::provider::ProviderKind;

pub use apns::{APNS_SOUND_BYTES, apns_payload};
pub use fcm::{FcmContent, fcm_content, is_reserved_by_fcm};
pub use webhook::webhook_notification;

/// A message's encoded size at a kind of provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodedSize {
    pub kind: ProviderKind,
    pub bytes: usize,
    pub limit: usize,
}

/// The encoded size at each of these kinds of provider, measured as it will be sent.
pub fn encoded_sizes(message: &Message, kinds: &[ProviderKind]) -> Vec<EncodedSize> {
    // The longest id, so that the size does not depend on when it is measured.
    let longest = BroadcastId(i64::MAX);
    let sound = "x".repeat(APNS_SOUND_BYTES);
    let bytes = |kind| match kind {
        // A web push is a webhook's notification, encrypted.
        ProviderKind::Webhook | ProviderKind::WebPush => webhook_notification(longest, message).len(),
        ProviderKind::Fcm => fcm_content(longest, message).counted_bytes(),
        ProviderKind::Apns => apns_payload(longest, message, Some(&sound)).len(),
    };
    let size =
        |&kind: &ProviderKind| EncodedSize { kind, bytes: bytes(kind), limit: kind.max_notification_bytes() };
    kinds.iter().map(size).collect()
}

/// Strings, and maps and structs of strings, always serialise.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("serialises")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn korean_text_is_measured_and_sent_as_utf8() {
        let message = Message { title: "봉수".into(), body: String::new(), data: BTreeMap::new() };
        assert_eq!(webhook_notification(BroadcastId(7), &message), r#"{"broadcast_id":"7","title":"봉수"}"#,);
        let size = encoded_sizes(&message, &[ProviderKind::Webhook])[0];
        assert_eq!(size.bytes, r#"{"broadcast_id":"9223372036854775807","title":"봉수"}"#.len());
    }
}
