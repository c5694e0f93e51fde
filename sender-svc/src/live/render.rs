//! What is sent of an event. The text of a broadcast is made once for all that get it; what differs from user to user is put
//! before it when it is sent.

use std::fmt;
use std::sync::OnceLock;

use bongsu_proto::v1;
use bongsu_store::{Content, Event, EventId};
use bytes::Bytes;

use super::notification::{self, EventPart, TextPart};

/// What a broadcast says, for all streams.
pub struct Text {
    content: Content,
    /// The rest of an event for browsers, after what is the user's.
    rest: OnceLock<Bytes>,
}

// Nothing of what is said.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Text").field("notification", &self.content.notification).finish_non_exhaustive()
    }
}

impl Text {
    pub fn new(content: Content) -> Self {
        Self { content, rest: OnceLock::new() }
    }

    /// Not to be shown any more.
    pub fn is_over(&self) -> bool {
        self.content.over
    }

    /// An event for browsers: what is this user's, and what is everybody's.
    pub fn sse(&self, event: &Event, epoch: i64) -> (Bytes, Bytes) {
        let id = EventId { epoch, seq: event.seq };
        // Without its closing brace: the rest goes on in the same object.
        let mut own = serde_json::to_string(&EventPart::new(id, event)).unwrap_or_default();
        own.pop();
        (format!("id: {id}\nevent: notification\ndata: {own},").into(), self.rest())
    }

    fn rest(&self) -> Bytes {
        let made = self.rest.get_or_init(|| {
            let mut rest = serde_json::to_vec(&TextPart::new(&self.content)).unwrap_or_default();
            rest.extend_from_slice(b"\n\n");
            // Without its opening brace.
            Bytes::from(rest).split_off(1)
        });
        made.clone()
    }

    /// The same for gRPC.
    pub fn message(&self, event: &Event, epoch: i64) -> v1::Notification {
        notification::to_proto(EventId { epoch, seq: event.seq }, event, &self.content)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bongsu_store::{BroadcastId, Message, UserNo};
    use serde_json::json;
    use time::OffsetDateTime;

    use super::*;

    #[test]
    fn both_parts_are_one_event_whose_text_has_no_line_breaks_of_its_own() {
        let moment = OffsetDateTime::from_unix_timestamp(1_764_460_800).unwrap();
        let data = BTreeMap::from([("k\n".to_owned(), "v".to_owned())]);
        let message = Message { title: "a\n\nid: 7".into(), body: "\"봉수\r\n".into(), data };
        let text =
            Text::new(Content { notification: BroadcastId(12), message, expires_at: moment, over: false });
        let event = Event {
            user: UserNo(1),
            seq: 5,
            broadcast: BroadcastId(13),
            created_at: moment,
            acknowledged: true,
            read: false,
        };
        let (own, rest) = text.sse(&event, 3);
        let whole = [own, rest].concat();
        let whole = std::str::from_utf8(&whole).unwrap();
        let data = whole.strip_prefix("id: 3-5\nevent: notification\ndata: ").unwrap();
        let data = data.strip_suffix("\n\n").unwrap();
        assert!(!data.contains(['\n', '\r']), "{data}");
        let expected = json!({
            "event_id": "3-5", "notification_id": "12", "title": "a\n\nid: 7", "body": "\"봉수\r\n",
            "data": {"k\n": "v"}, "create_time": "2025-11-30T00:00:00Z", "expire_time": "2025-11-30T00:00:00Z",
            "acknowledged": true, "read": false,
        });
        assert_eq!(serde_json::from_str::<serde_json::Value>(data).unwrap(), expected);
    }
}
