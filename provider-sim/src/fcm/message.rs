//! What FCM takes for a message: the fields of
//! <https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages>, and none beside them. Each is known by its name in
//! protobuf and by that in JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// Of notification and data together.
const MAX_PAYLOAD_BYTES: usize = 4_096;
const MAX_TOKEN_BYTES: usize = 4_096;
const MAX_COLLAPSE_KEY_BYTES: usize = 255;
const MAX_TTL_SECONDS: u64 = 28 * 24 * 3_600;
const MAX_COLLAPSE_ID_BYTES: usize = 64;
const MAX_TOPIC_BYTES: usize = 32;

type Strings<'a> = BTreeMap<String, String>;

/// What of a message matters here.
pub(super) struct Message<'a> {
    pub token: Cow<'a, str>,
    pub collapse_key: Cow<'a, str>,
    pub validate_only: bool,
}

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub field: String,
    pub description: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request<'a> {
    #[serde(alias = "validateOnly", default)]
    validate_only: bool,
    #[serde(borrow)]
    message: Fields<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    #[serde(borrow, default)]
    token: Option<Cow<'a, str>>,
    topic: Option<IgnoredAny>,
    condition: Option<IgnoredAny>,
    #[serde(rename = "name")]
    _name: Option<IgnoredAny>,
    #[serde(borrow, default)]
    notification: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    android: Android<'a>,
    #[serde(default)]
    apns: Apns,
    #[serde(default)]
    webpush: WebPush,
    #[serde(rename = "fcm_options", alias = "fcmOptions")]
    _fcm_options: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Notification {
    #[serde(rename = "title")]
    _title: Option<String>,
    #[serde(rename = "body")]
    _body: Option<String>,
    #[serde(rename = "image")]
    _image: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Android<'a> {
    #[serde(borrow, alias = "collapseKey")]
    collapse_key: Cow<'a, str>,
    priority: Option<Priority>,
    #[serde(borrow)]
    ttl: Option<Cow<'a, str>>,
    data: Strings<'a>,
    #[serde(rename = "notification")]
    _notification: Option<AndroidNotification>,
    #[serde(rename = "restricted_package_name", alias = "restrictedPackageName")]
    _restricted_package_name: Option<String>,
    #[serde(rename = "fcm_options", alias = "fcmOptions")]
    _fcm_options: Option<IgnoredAny>,
    #[serde(rename = "direct_boot_ok", alias = "directBootOk")]
    _direct_boot_ok: Option<bool>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Priority {
    #[serde(alias = "normal")]
    Normal,
    #[serde(alias = "high")]
    High,
}

/// The fields that senders of ours may use.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AndroidNotification {
    #[serde(rename = "tag")]
    _tag: Option<String>,
    #[serde(rename = "channel_id", alias = "channelId")]
    _channel_id: Option<String>,
    #[serde(rename = "sound")]
    _sound: Option<String>,
    #[serde(rename = "default_sound", alias = "defaultSound")]
    _default_sound: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Apns {
    headers: Strings<'static>,
    #[serde(rename = "payload")]
    _payload: Option<BTreeMap<String, IgnoredAny>>,
    #[serde(rename = "fcm_options", alias = "fcmOptions")]
    _fcm_options: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WebPush {
    headers: Strings<'static>,
    #[serde(rename = "data")]
    _data: Strings<'static>,
    #[serde(rename = "notification")]
    _notification: Option<BTreeMap<String, IgnoredAny>>,
    #[serde(rename = "fcm_options", alias = "fcmOptions")]
    _fcm_options: Option<IgnoredAny>,
}

fn violation(field: impl Into<String>, description: impl Into<String>) -> Violation {
    Violation { field: field.into(), description: description.into() }
}

/// A part of a message in JSON; what is wrong is told with the field, where serde names it.
fn json<'a, T: Deserialize<'a>>(at: &str, json: &'a [u8]) -> Result<T, Violation> {
    serde_json::from_slice(json).map_err(|error| {
        let error = error.to_string();
        let named = error.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
        match named {
            Some(name) => {
                violation(format!("{at}.{name}"), format!("unknown name {name:?}: there is no such field"))
            }
            None => violation(at, format!("invalid JSON payload: {error}")),
        }
    })
}

/// Reads a request whole.
pub(super) fn read(body: &[u8]) -> Result<Message<'_>, Violation> {
    let Request { validate_only, message } = json("message", body)?;
    if message.topic.is_some() || message.condition.is_some() {
        return Err(violation("message", "a message has one target, and here it is a token"));
    }
    let token = message.token.unwrap_or_default();
    if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
        return Err(violation("message.token", "the message has no target: a registration token is missing"));
    }
    let (notification, data) = (message.notification, message.data);
    let size = [notification, data].into_iter().flatten().map(|part| part.get().len()).sum::<usize>();
    if size > MAX_PAYLOAD_BYTES {
        let detail = format!("the message has {size} bytes; at most {MAX_PAYLOAD_BYTES} are taken");
        return Err(violation("message", detail));
    }
    if let Some(notification) = notification {
        json::<Notification>("message.notification", notification.get().as_bytes())?;
    }
    let data = data.map_or(Ok(Strings::new()), |data| json("message.data", data.get().as_bytes()))?;
    for key in data.keys().chain(message.android.data.keys()) {
        if is_reserved(key) {
            return Err(violation(format!("message.data[{key:?}]"), "the key is one that FCM uses itself"));
        }
    }
    android(&message.android)?;
    headers(&message.apns, &message.webpush)?;
    Ok(Message { token, collapse_key: message.android.collapse_key, validate_only })
}

fn is_reserved(key: &str) -> bool {
    matches!(key, "from" | "gcm" | "message_type")
        || ["google", "gcm."].iter().any(|start| key.starts_with(start))
}

fn android(android: &Android<'_>) -> Result<(), Violation> {
    if android.collapse_key.len() > MAX_COLLAPSE_KEY_BYTES {
        return Err(violation("message.android.collapse_key", "the collapse key is too long"));
    }
    let Some(ttl) = &android.ttl else { return Ok(()) };
    if !is_duration(ttl) {
        let detail = format!("{ttl:?} is no duration of at most {MAX_TTL_SECONDS} seconds, like \"90s\"");
        return Err(violation("message.android.ttl", detail));
    }
    Ok(())
}

/// Seconds with up to nine digits after the point, and an s.
fn is_duration(text: &str) -> bool {
    let Some(number) = text.strip_suffix('s') else { return false };
    let (seconds, nanos) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(seconds)
        && digits(nanos)
        && nanos.len() <= 9
        && seconds.parse().is_ok_and(|seconds: u64| seconds <= MAX_TTL_SECONDS)
}

/// What APNs and push services would not take; FCM tells it only later, and to nobody.
fn headers(apns: &Apns, webpush: &WebPush) -> Result<(), Violation> {
    let number = |value: &str| value.parse::<u32>().is_ok();
    for (name, value) in &apns.headers {
        let fine = match name.as_str() {
            "apns-expiration" => number(value),
            "apns-priority" => matches!(value.as_str(), "1" | "5" | "10"),
            "apns-collapse-id" => value.len() <= MAX_COLLAPSE_ID_BYTES,
            _ => true,
        };
        if !fine {
            return Err(violation(
                format!("message.apns.headers[{name:?}]"),
                "APNs would not take this value",
            ));
        }
    }
    for (name, value) in &webpush.headers {
        let fine = match name.as_str() {
            "TTL" => number(value),
            "Urgency" => matches!(value.as_str(), "very-low" | "low" | "normal" | "high"),
            "Topic" => (1..=MAX_TOPIC_BYTES).contains(&value.len()),
            _ => true,
        };
        if !fine {
            let field = format!("message.webpush.headers[{name:?}]");
            return Err(violation(field, "a push service would not take this value"));
        }
    }
    Ok(())
}
