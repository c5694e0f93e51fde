//! `POST /webpush/{name}`: a push service (RFC 8030) and the browsers behind it. Everything about a browser follows from its
//! name, so a million of them cost nothing.

mod browser;
mod opened;
mod vapid;

use std::borrow::Cow;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CONTENT_ENCODING, HeaderMap, HeaderValue, LOCATION};
use hyper::http::request::Parts;
use serde::Deserialize;

use crate::answer::{self, Answer};
use crate::decision::Verdict;
use crate::push::{Push, Refusal};
use crate::sim::Sim;

use browser::Browser;
pub(crate) use opened::Opened;

/// Where push resources are.
pub(crate) const RESOURCES: &str = "/webpush/";
/// `GET` of this and a name: the browser's subscription.
const SUBSCRIPTIONS: &str = "/webpush/subscription/";
/// `GET` of this and a name: what the browser was last sent.
const PAYLOADS: &str = "/webpush/payload/";

const MAX_NAME_BYTES: usize = 255;
/// What push services must take (RFC 8030, section 7.2); many take no more.
const MAX_BODY_BYTES: usize = 4_096;
const MAX_TOPIC_BYTES: usize = 32;
const URGENCIES: [&str; 4] = ["very-low", "low", "normal", "high"];

pub(crate) fn read<'a>(sim: &Sim, parts: &'a Parts, body: &'a [u8]) -> Result<Push<'a>, Refusal> {
    let name = parts.uri.path().strip_prefix(RESOURCES).filter(|name| is_name(name));
    let name =
        name.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "no_such_subscription", "no such name"))?;
    let topic = check_headers(&parts.headers)?;
    if body.len() > MAX_BODY_BYTES {
        let detail = format!("a push may have {MAX_BODY_BYTES} bytes, encrypted");
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail));
    }
    if sim.lock().behaviour.lenient {
        return Ok(Push { key: format!("{name}/{topic}").into(), token: name.into() });
    }
    vapid::check(parts, &origin(parts)?)?;
    let payload = Browser::of(name).open(body)?;
    let key = format!("{name}/{}", broadcast_of(&payload)?);
    sim.opened.keep(name, payload);
    Ok(Push { key: key.into(), token: name.into() })
}

/// The answer to a `GET` below `/webpush/`; none where there is nothing.
pub(crate) fn get(sim: &Sim, parts: &Parts) -> Option<Result<Answer, Refusal>> {
    let path = parts.uri.path();
    if let Some(name) = path.strip_prefix(SUBSCRIPTIONS).filter(|name| is_name(name)) {
        return Some(origin(parts).map(|origin| {
            answer::json_text(
                StatusCode::OK,
                Browser::of(name).subscription(&format!("{origin}{RESOURCES}{name}")),
            )
        }));
    }
    let name = path.strip_prefix(PAYLOADS)?;
    sim.opened.last(name).map(|payload| Ok(answer::json_text(StatusCode::OK, payload)))
}

pub(crate) fn reply(verdict: Verdict, number: u64) -> Answer {
    let error = |status, text: &'static str| answer::json_text(status, Bytes::from_static(text.as_bytes()));
    match verdict {
        Verdict::Accepted | Verdict::Duplicate | Verdict::Suppressed => {
            let mut created = answer::json_text(StatusCode::CREATED, Bytes::new());
            if let Ok(location) = HeaderValue::from_str(&format!("/webpush/message/{number}")) {
                created.headers_mut().insert(LOCATION, location);
            }
            created
        }
        Verdict::Unregistered => error(StatusCode::GONE, r#"{"error":"unsubscribed"}"#),
        Verdict::Rejected => error(StatusCode::BAD_REQUEST, r#"{"error":"rejected"}"#),
        // Subscribed for another key (RFC 8292, section 4.2).
        Verdict::Mismatched => error(StatusCode::FORBIDDEN, r#"{"error":"mismatched"}"#),
        Verdict::Throttled => error(StatusCode::TOO_MANY_REQUESTS, r#"{"error":"throttled"}"#),
        Verdict::Transient | Verdict::Failing | Verdict::Outage | Verdict::Hung => {
            error(StatusCode::SERVICE_UNAVAILABLE, r#"{"error":"unavailable"}"#)
        }
        Verdict::Overridden => error(StatusCode::OK, r#"{"error":"overridden"}"#),
    }
}

/// What needs no key to be looked at; the topic, or nothing.
fn check_headers(headers: &HeaderMap) -> Result<&str, Refusal> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if text("ttl").is_none_or(|ttl| ttl.parse::<u32>().is_err()) {
        return Err(Refusal::malformed("TTL must be a number of seconds (RFC 8030, section 5.2)"));
    }
    if text(CONTENT_ENCODING.as_str()) != Some("aes128gcm") {
        return Err(Refusal::malformed("Content-Encoding must be aes128gcm (RFC 8291, section 4)"));
    }
    if text("urgency").is_some_and(|urgency| !URGENCIES.contains(&urgency)) {
        return Err(Refusal::malformed(format!("Urgency is one of {URGENCIES:?} (RFC 8030, section 5.3)")));
    }
    let topic = text("topic");
    let fine = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    if topic.is_some_and(|t| !(1..=MAX_TOPIC_BYTES).contains(&t.len()) || !t.bytes().all(fine)) {
        let detail =
            format!("Topic is 1 to {MAX_TOPIC_BYTES} characters of base64url (RFC 8030, section 5.4)");
        return Err(Refusal::malformed(detail));
    }
    Ok(topic.unwrap_or_default())
}

/// Where the caller believes us to be. Web push knows https only.
fn origin(parts: &Parts) -> Result<String, Refusal> {
    let host = parts.headers.get("host").and_then(|host| host.to_str().ok());
    let authority = parts.uri.authority().map(|authority| authority.as_str()).or(host);
    authority
        .map(|authority| format!("https://{authority}"))
        .ok_or_else(|| Refusal::malformed("there is no Host"))
}

fn is_name(name: &str) -> bool {
    let fine = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(fine)
}

fn broadcast_of(payload: &str) -> Result<Cow<'_, str>, Refusal> {
    #[derive(Deserialize)]
    struct Notification<'a> {
        #[serde(borrow, default)]
        broadcast_id: Cow<'a, str>,
    }
    serde_json::from_str(payload).map(|Notification { broadcast_id }| broadcast_id).map_err(|error| {
        Refusal::malformed(format!("what was encrypted is no notification in JSON: {error}"))
    })
}
