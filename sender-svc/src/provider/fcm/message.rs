//! A message as FCM takes it (HTTP v1, `projects.messages`).

use std::fmt::Display;
use std::time::Duration;

use bongsu_store::{Priority, fcm_content};
use bytes::Bytes;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::super::Brief;

/// FCM keeps a message at most this long.
const LONGEST_TTL: Duration = Duration::from_secs(28 * 24 * 3_600);

/// What all calls of a broadcast have in common.
#[derive(Debug)]
pub struct Content {
    notification: Option<Box<RawValue>>,
    data: Box<RawValue>,
    /// The same for every message of a broadcast, so that a second one replaces the first where it is shown or waits.
    collapse: String,
    channel: Option<String>,
    priority: Priority,
    validate_only: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    validate_only: bool,
    message: Message<'a>,
}

#[derive(Serialize)]
struct Message<'a> {
    token: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    notification: Option<&'a RawValue>,
    data: &'a RawValue,
    android: Android<'a>,
    apns: Apns<'a>,
    webpush: WebPush<'a>,
}

#[derive(Serialize)]
struct Android<'a> {
    priority: &'static str,
    #[serde(serialize_with = "text")]
    ttl: Ttl,
    collapse_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    notification: Option<AndroidNotification<'a>>,
}

#[derive(Serialize)]
struct AndroidNotification<'a> {
    tag: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Apns<'a> {
    headers: ApnsHeaders<'a>,
    payload: ApnsPayload,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ApnsHeaders<'a> {
    #[serde(serialize_with = "text")]
    apns_expiration: u64,
    apns_collapse_id: &'a str,
    apns_priority: &'static str,
}

#[derive(Serialize)]
struct ApnsPayload {
    aps: Aps,
}

/// What FCM does not make of the notification by itself.
#[derive(Serialize)]
enum Aps {
    #[serde(rename = "sound")]
    Sound(&'static str),
    /// Where nothing is shown, the app is woken to read the data.
    #[serde(rename = "content-available")]
    ContentAvailable(u8),
}

#[derive(Serialize)]
struct WebPush<'a> {
    headers: WebPushHeaders<'a>,
}

#[derive(Serialize)]
struct WebPushHeaders<'a> {
    #[serde(rename = "TTL", serialize_with = "text")]
    ttl: u64,
    #[serde(rename = "Urgency")]
    urgency: &'static str,
    #[serde(rename = "Topic")]
    topic: &'a str,
}

/// A duration in protobuf's JSON.
struct Ttl(u64);

impl Display for Ttl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}s", self.0)
    }
}

/// Header values, and durations, are strings.
fn text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Whole seconds to keep a message for. Nothing is rounded down to 0, which means now or never.
fn ttl_seconds(time_left: Duration) -> u64 {
    let rounded_up = u64::from(!time_left.is_zero());
    time_left.min(LONGEST_TTL).as_secs().max(rounded_up)
}

impl Content {
    pub fn new(brief: Brief<'_>, channel: Option<&str>, validate_only: bool) -> Self {
        let raw = |json| RawValue::from_string(json).expect("serde_json wrote it");
        let content = fcm_content(brief.origin, brief.message);
        Self {
            notification: content.notification.map(raw),
            data: raw(content.data),
            collapse: brief.origin.to_string(),
            channel: channel.map(str::to_owned),
            priority: brief.priority,
            validate_only,
        }
    }

    /// The request for one device, at that second since 1970.
    pub fn body(&self, token: &str, time_left: Duration, unix_now: u64) -> serde_json::Result<Bytes> {
        let Self { notification, data, collapse, channel, priority, validate_only } = self;
        let high = *priority == Priority::High;
        let (ttl, shown) = (ttl_seconds(time_left), notification.is_some());
        let headers = ApnsHeaders {
            // 0 is APNs' now or never.
            apns_expiration: if ttl == 0 { 0 } else { unix_now + ttl },
            apns_collapse_id: collapse,
            // APNs takes what only wakes the app with no other priority.
            apns_priority: if high && shown { "10" } else { "5" },
        };
        let aps = if shown { Aps::Sound("default") } else { Aps::ContentAvailable(1) };
        let message = Message {
            token,
            notification: notification.as_deref(),
            data,
            android: Android {
                priority: if high { "HIGH" } else { "NORMAL" },
                ttl: Ttl(ttl),
                collapse_key: collapse,
                notification: shown
                    .then_some(AndroidNotification { tag: collapse, channel_id: channel.as_deref() }),
            },
            apns: Apns { headers, payload: ApnsPayload { aps } },
            webpush: WebPush {
                headers: WebPushHeaders {
                    ttl,
                    urgency: match priority {
                        Priority::High => "high",
                        Priority::Normal => "normal",
                        Priority::Low => "low",
                    },
                    topic: collapse,
                },
            },
        };
        serde_json::to_vec(&Body { validate_only: *validate_only, message }).map(Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use bongsu_store::{BroadcastId, Message};
    use serde_json::{Value, json};

    use super::*;

    fn body(message: &Message, priority: Priority, time_left: Duration, validate_only: bool) -> Value {
        let brief = Brief { origin: BroadcastId(42), message, priority };
        let content = Content::new(brief, Some("news"), validate_only);
        let body = content.body("a \"token\"", time_left, 1_700_000_000).expect("serialises");
        serde_json::from_slice(&body).expect("JSON")
    }

    #[test]
    fn a_message_says_for_each_platform_how_long_how_urgent_and_what_it_replaces() {
        let message =
            Message { title: "봉수".into(), body: "b".into(), data: [("k".into(), "v".into())].into() };
        assert_eq!(
            body(&message, Priority::High, Duration::from_secs(90), false),
            json!({ "message": {
                "token": "a \"token\"",
                "notification": { "title": "봉수", "body": "b" },
                "data": { "k": "v", "broadcast_id": "42" },
                "android": {
                    "priority": "HIGH", "ttl": "90s", "collapse_key": "42",
                    "notification": { "tag": "42", "channel_id": "news" },
                },
                "apns": {
                    "headers": {
                        "apns-expiration": "1700000090", "apns-collapse-id": "42", "apns-priority": "10",
                    },
                    "payload": { "aps": { "sound": "default" } },
                },
                "webpush": { "headers": { "TTL": "90", "Urgency": "high", "Topic": "42" } },
            }})
        );
    }

    #[test]
    fn a_message_of_data_alone_wakes_the_app_and_shows_nothing() {
        let message = Message { title: String::new(), body: String::new(), data: [].into() };
        let body = body(&message, Priority::High, Duration::from_secs(90), true);
        assert_eq!(body["validate_only"], true);
        let message = &body["message"];
        assert_eq!(
            (&message["notification"], &message["android"]["notification"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(message["apns"]["payload"], json!({ "aps": { "content-available": 1 } }));
        assert_eq!(message["apns"]["headers"]["apns-priority"], "5");
    }

    #[test]
    fn only_a_message_without_time_left_is_now_or_never_and_none_is_kept_beyond_28_days() {
        let message = Message { title: "t".into(), body: String::new(), data: [].into() };
        for (left, ttl, expiration) in [
            (Duration::ZERO, "0", "0"),
            (Duration::from_millis(1), "1", "1700000001"),
            (Duration::from_millis(2_999), "2", "1700000002"),
            (Duration::from_secs(30 * 86_400), "2419200", "1702419200"),
        ] {
            let message = &body(&message, Priority::Normal, left, false)["message"];
            assert_eq!(message["android"]["ttl"], format!("{ttl}s"));
            assert_eq!(message["webpush"]["headers"]["TTL"], ttl);
            assert_eq!(message["apns"]["headers"]["apns-expiration"], expiration);
        }
    }
}
