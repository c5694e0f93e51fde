//! `POST /3/device/<token>`: Apple Push Notification service, as strict as Apple's documentation is.
//!
//! Device tokens are hexadecimal digits; what they stand for decides, as a token does elsewhere: `expired-1` is registered as
//! `657870697265642d31`. What Apple leaves out where it is not needed must be there, so that nobody forgets it: `apns-id`,
//! which names the delivery, and `apns-push-type`.

mod token;

use std::borrow::Cow;
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};
use serde_json::Value;

use crate::answer::{self, Answer};
use crate::decision::Verdict;
use crate::push::Push;
use crate::sim::Sim;
use crate::{Behaviour, clock};

pub use token::{KEY_ID, TEAM_ID};
pub(crate) use token::{KEY_PEM, Tokens};

/// The only app there is; with `.voip` behind it, its calls.
pub const TOPIC: &str = "example.bongsu.app";

const PATH: &str = "/3/device/";
const ID: HeaderName = HeaderName::from_static("apns-id");
const MAX_COLLAPSE_ID_BYTES: usize = 64;
const MAX_PAYLOAD_BYTES: usize = 4_096;
const MAX_VOIP_PAYLOAD_BYTES: usize = 5_120;
/// Digits of a device token.
const TOKEN_DIGITS: std::ops::RangeInclusive<usize> = 8..=200;
/// Apple's push types; the payload of those with their own rules is not looked at.
const PUSH_TYPES: [&str; 11] = [
    "alert",
    "background",
    "complication",
    "controls",
    "fileprovider",
    "liveactivity",
    "location",
    "mdm",
    "pushtotalk",
    "voip",
    "widgets",
];
/// Each may come once.
const HEADERS: [&str; 7] = [
    "authorization",
    "apns-topic",
    "apns-push-type",
    "apns-priority",
    "apns-expiration",
    "apns-collapse-id",
    "apns-id",
];

/// A status and Apple's reason.
type Refused = (StatusCode, &'static str);

pub(crate) fn is_push(path: &str) -> bool {
    path.starts_with("/3/")
}

pub(crate) fn read<'a>(sim: &Sim, parts: &'a Parts, body: &[u8]) -> Result<Push<'a>, Answer> {
    let behaviour = sim.lock().behaviour.clone();
    let now = clock::now(&behaviour);
    check(sim, &behaviour, now, parts, body).map_err(|(status, reason)| {
        let mut answer = failure(status, reason);
        clock::tell_time(&mut answer, &behaviour);
        if let Some((name, id)) = echo(parts) {
            answer.headers_mut().insert(name, id);
        }
        answer
    })
}

/// What an answer repeats of its request.
pub(crate) fn echo(parts: &Parts) -> Option<(HeaderName, HeaderValue)> {
    Some((ID, parts.headers.get(ID)?.clone()))
}

fn check<'a>(
    sim: &Sim,
    behaviour: &Behaviour,
    now: Duration,
    parts: &'a Parts,
    body: &[u8],
) -> Result<Push<'a>, Refused> {
    let bad = |reason| (StatusCode::BAD_REQUEST, reason);
    if parts.version != Version::HTTP_2 {
        return Err((StatusCode::HTTP_VERSION_NOT_SUPPORTED, "HttpVersionNotSupported"));
    }
    let Some(token) = parts.uri.path().strip_prefix(PATH) else {
        return Err((StatusCode::NOT_FOUND, "BadPath"));
    };
    if parts.method != Method::POST {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"));
    }
    if HEADERS.iter().any(|name| parts.headers.get_all(*name).iter().count() > 1) {
        return Err(bad("DuplicateHeaders"));
    }
    sim.apns.check(parts.headers.get(AUTHORIZATION), behaviour, now)?;
    let (key, push_type) = check_headers(parts)?;
    check_payload(push_type, body)?;
    if token.is_empty() {
        return Err(bad("MissingDeviceToken"));
    }
    Ok(Push { key, token: device(token).ok_or(bad("BadDeviceToken"))?.into() })
}

/// The delivery's name and the push type.
fn check_headers(parts: &Parts) -> Result<(Cow<'_, str>, &str), Refused> {
    let bad = |reason| (StatusCode::BAD_REQUEST, reason);
    // Not text is as good as wrong.
    let header = |name| parts.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let push_type = header("apns-push-type").filter(|kind| PUSH_TYPES.contains(kind));
    let push_type = push_type.ok_or(bad("InvalidPushType"))?;
    match header("apns-topic").ok_or(bad("MissingTopic"))? {
        TOPIC if push_type != "voip" => {}
        topic if push_type == "voip" && topic.strip_suffix(".voip") == Some(TOPIC) => {}
        "" => return Err(bad("BadTopic")),
        _ => return Err(bad("TopicDisallowed")),
    }
    match header("apns-priority") {
        // At once is not for what shows nothing.
        Some("10") if push_type == "background" => return Err(bad("BadPriority")),
        None | Some("10" | "5" | "1") => {}
        Some(_) => return Err(bad("BadPriority")),
    }
    if header("apns-expiration").is_some_and(|seconds| seconds.parse::<u64>().is_err()) {
        return Err(bad("BadExpirationDate"));
    }
    if header("apns-collapse-id").is_some_and(|id| !(1..=MAX_COLLAPSE_ID_BYTES).contains(&id.len())) {
        return Err(bad("BadCollapseId"));
    }
    let id = header("apns-id").filter(|id| is_uuid(id)).ok_or(bad("BadMessageId"))?;
    Ok((id.into(), push_type))
}

fn check_payload(push_type: &str, body: &[u8]) -> Result<(), Refused> {
    let most = if push_type == "voip" { MAX_VOIP_PAYLOAD_BYTES } else { MAX_PAYLOAD_BYTES };
    if body.len() > most {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "PayloadTooLarge"));
    }
    if body.is_empty() {
        return Err((StatusCode::BAD_REQUEST, "PayloadEmpty"));
    }
    let payload: Value = serde_json::from_slice(body).unwrap_or_default();
    let aps = &payload["aps"];
    let shows = ["alert", "sound", "badge"].iter().any(|name| !aps[*name].is_null());
    let fine = match push_type {
        "alert" => aps.is_object() && shows,
        "background" => aps["content-available"] == 1 && !shows,
        _ => aps.is_object(),
    };
    // Apple has no reason for it; what it does with such a payload is nowhere said.
    if fine { Ok(()) } else { Err((StatusCode::BAD_REQUEST, "InvalidPayload")) }
}

/// What a device token stands for; `None` where it is none.
fn device(digits: &str) -> Option<String> {
    if !TOKEN_DIGITS.contains(&digits.len()) || !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = digits.as_bytes().chunks_exact(2);
    let bytes = pairs.map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8));
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// In the canonical form (RFC 9562, section 4).
fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

pub(crate) fn reply(verdict: Verdict, behaviour: &Behaviour) -> Answer {
    let mut answer = match verdict {
        Verdict::Accepted | Verdict::Duplicate | Verdict::Suppressed => answer::json_text(StatusCode::OK, ""),
        Verdict::Unregistered => {
            let ago = Duration::from_secs(behaviour.unregistered_ago_s.into());
            let since = clock::now(behaviour).saturating_sub(ago).as_millis();
            answer::json_text(StatusCode::GONE, format!(r#"{{"reason":"Unregistered","timestamp":{since}}}"#))
        }
        Verdict::Rejected => failure(StatusCode::PAYLOAD_TOO_LARGE, "PayloadTooLarge"),
        Verdict::Mismatched => failure(StatusCode::BAD_REQUEST, "BadDeviceToken"),
        Verdict::Throttled => failure(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
        Verdict::Failing => failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError"),
        Verdict::Transient => failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
        Verdict::Outage | Verdict::Hung => failure(StatusCode::SERVICE_UNAVAILABLE, "Shutdown"),
        Verdict::Overridden => failure(StatusCode::OK, "Overridden"),
    };
    clock::tell_time(&mut answer, behaviour);
    answer
}

fn failure(status: StatusCode, reason: &str) -> Answer {
    answer::json_text(status, format!(r#"{{"reason":"{reason}"}}"#))
}
