//! A notification on the wire: in JSON for browsers and lists, and as gRPC's message.

use std::collections::BTreeMap;

use bongsu_ops::api::to_timestamp;
use bongsu_proto::v1;
use bongsu_store::{Content, Event, EventId};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// One broadcast to a user.
#[derive(Debug, Clone, Serialize)]
pub struct Notification<'a> {
    #[serde(flatten)]
    pub event: EventPart,
    #[serde(flatten)]
    pub text: TextPart<'a>,
}

/// What differs from user to user.
#[derive(Debug, Clone, Serialize)]
pub struct EventPart {
    pub event_id: String,
    pub create_time: String,
    pub acknowledged: bool,
    pub read: bool,
}

/// What all users of a broadcast get.
#[derive(Clone, Serialize)]
pub struct TextPart<'a> {
    pub notification_id: String,
    pub title: &'a str,
    pub body: &'a str,
    pub data: &'a BTreeMap<String, String>,
    pub expire_time: String,
}

/// Without what is said, which has no place in a log.
impl std::fmt::Debug for TextPart<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextPart").field("notification_id", &self.notification_id).finish_non_exhaustive()
    }
}

impl<'a> Notification<'a> {
    pub fn new(id: EventId, event: &Event, content: &'a Content) -> Self {
        Self { event: EventPart::new(id, event), text: TextPart::new(content) }
    }
}

impl EventPart {
    pub fn new(id: EventId, event: &Event) -> Self {
        Self {
            event_id: id.to_string(),
            create_time: rfc3339(event.created_at),
            acknowledged: event.acknowledged,
            read: event.read,
        }
    }
}

impl<'a> TextPart<'a> {
    pub fn new(content: &'a Content) -> Self {
        Self {
            notification_id: content.notification.to_string(),
            title: &content.message.title,
            body: &content.message.body,
            data: content.data(),
            expire_time: rfc3339(content.expires_at),
        }
    }
}

/// The same for gRPC.
pub fn to_proto(id: EventId, event: &Event, content: &Content) -> v1::Notification {
    v1::Notification {
        event_id: id.to_string(),
        notification_id: content.notification.0,
        title: content.message.title.clone(),
        body: content.message.body.clone(),
        data: content.data().clone(),
        create_time: Some(to_timestamp(event.created_at)),
        expire_time: Some(to_timestamp(content.expires_at)),
        acknowledged: event.acknowledged,
        read: event.read,
    }
}

fn rfc3339(moment: OffsetDateTime) -> String {
    // What the database holds is of the years that have a form.
    moment.format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use bongsu_store::{BroadcastId, Message, UserNo};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_notification_says_the_same_in_json_and_by_grpc() {
        let moment = OffsetDateTime::from_unix_timestamp(1_764_460_800).expect("a moment");
        let event = Event {
            user: UserNo(1),
            seq: 5,
            broadcast: BroadcastId(13),
            created_at: moment,
            acknowledged: true,
            read: false,
        };
        let data = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
        let message = Message { title: "봉수".into(), body: "불이\n올랐다".into(), data };
        // Of a replay: clients know it by the original.
        let content =
            Content { notification: BroadcastId(i64::MAX), message, expires_at: moment, over: false };
        let id = EventId { epoch: 3, seq: 5 };
        let shown = Notification::new(id, &event, &content);
        let expected = json!({
            "event_id": "3-5", "notification_id": "9223372036854775807", "title": "봉수", "body": "불이\n올랐다",
            "data": {"k": "v"}, "create_time": "2025-11-30T00:00:00Z", "expire_time": "2025-11-30T00:00:00Z",
            "acknowledged": true, "read": false,
        });
        assert_eq!(serde_json::to_value(&shown).expect("it has a form"), expected);
        assert!(!format!("{shown:?}").contains("봉수"), "texts stay out of logs");
        let proto = to_proto(id, &event, &content);
        assert_eq!((proto.event_id.as_str(), proto.notification_id), ("3-5", i64::MAX));
        assert_eq!((proto.title, proto.data["k"].as_str()), ("봉수".to_owned(), "v"));
        assert_eq!(proto.create_time.map(|t| t.seconds), Some(1_764_460_800));
        assert!(proto.acknowledged && !proto.read);
    }
}
