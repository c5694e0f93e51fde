//! The `apns` provider: Apple Push Notification service, by its HTTP/2 provider API with a signed token.
//!
//! One POST of the payload to `/3/device/<token>` per delivery. `apns-id` is the same for every attempt of a delivery, and
//! `apns-collapse-id` for all that a device is told of a broadcast, so that a second notification takes the first one's place.

mod answer;
mod jwt;
mod settings;
mod token;

use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use bongsu_store::{Priority, apns_payload};
use bytes::Bytes;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Request, Uri, Version};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::credentials::Credentials;
use super::http::{self, AGENT, Connections, Reply, Trust};
use super::{Answer, Brief, Call};
use answer::Failure;
use token::Tokens;

pub use settings::Settings;

use settings::PushType;

/// A device token has at most so many hexadecimal digits; 64 today, and Apple says that it may grow.
const TOKEN_DIGITS: usize = 200;
/// The headers of a request.
const HEADERS: usize = 8;

const TOPIC: HeaderName = HeaderName::from_static("apns-topic");
const PUSH_TYPE: HeaderName = HeaderName::from_static("apns-push-type");
const PRIORITY: HeaderName = HeaderName::from_static("apns-priority");
const EXPIRATION: HeaderName = HeaderName::from_static("apns-expiration");
const COLLAPSE_ID: HeaderName = HeaderName::from_static("apns-collapse-id");
const ID: HeaderName = HeaderName::from_static("apns-id");

/// Shown at once.
const AT_ONCE: HeaderValue = HeaderValue::from_static("10");
/// When it costs the device little power.
const CONSIDERATE: HeaderValue = HeaderValue::from_static("5");

/// One app at APNs, ready to be called.
#[derive(Debug)]
pub struct Apns {
    host: (Scheme, Authority),
    connections: Connections,
    tokens: Tokens,
    topic: HeaderValue,
    push_type: PushType,
    sound: Option<String>,
    timeout: Duration,
}

/// What all calls of a broadcast have in common.
pub struct Content {
    payload: Bytes,
    push_type: HeaderValue,
    priority: HeaderValue,
    collapse_id: HeaderValue,
}

// Nothing of what people are told.
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a payload of {} bytes", self.payload.len())
    }
}

impl Apns {
    /// A client for up to `in_flight` calls at a time, each ended after `timeout`. Must be called within a runtime.
    ///
    /// # Errors
    ///
    /// When a setting is not what it should be, or the key or the certificates cannot be read.
    pub fn new(settings: Settings, in_flight: usize, timeout: Duration) -> anyhow::Result<Self> {
        settings.check()?;
        let uri = settings.endpoint()?;
        let host = (uri.scheme().cloned(), uri.authority().cloned());
        let (Some(scheme), Some(authority)) = host else { anyhow::bail!("the endpoint names no host") };
        let trust = Trust::new(settings.ca_file.as_deref())?;
        let count = http::connections_for(in_flight);
        let connections = Connections::new(uri, count, http::connect_timeout(timeout), Some(&trust))?;
        let key = Credentials::load(settings.credentials, jwt::Key::parse)?;
        Ok(Self {
            host: (scheme, authority),
            connections,
            tokens: Tokens::new(key, settings.key_id, settings.team_id),
            topic: HeaderValue::from_str(&settings.topic).context("topic")?,
            push_type: settings.push_type,
            sound: Some(settings.sound).filter(|sound| !sound.is_empty()),
            timeout,
        })
    }

    /// What all calls of a broadcast have in common.
    pub fn prepare(&self, brief: Brief<'_>) -> Content {
        let message = brief.message;
        let shown = !(message.title.is_empty() && message.body.is_empty());
        // A device is woken for the data, and shows nothing: Apple refuses to do that at once.
        let background = self.push_type == PushType::Alert && !shown;
        let considerate = background || brief.priority == Priority::Low;
        Content {
            payload: apns_payload(brief.origin, message, self.sound.as_deref()).into(),
            push_type: HeaderValue::from_static(if background {
                "background"
            } else {
                self.push_type.name()
            }),
            priority: if considerate { CONSIDERATE } else { AT_ONCE },
            collapse_id: HeaderValue::from(brief.origin.0),
        }
    }

    /// Makes one call, and a second one where our own token was refused and there is another. Never longer than the time-out,
    /// whatever the other side does.
    pub async fn call(&self, call: Call<'_>, content: &Content) -> Answer {
        let Some(uri) = self.uri(call.token) else { return answer::no_device_token() };
        let deadline = call.now + self.timeout;
        let id = apns_id(&call.delivery_key());
        // A moment and no span: 0 would be "now or never".
        let expiration = HeaderValue::from(self.tokens.clock().unix_s_after(call.time_left));
        let (mut token, mut begins, mut first) = (self.tokens.get(), call.now, true);
        loop {
            let request = || {
                let mut request = Request::new(());
                *request.method_mut() = Method::POST;
                *request.uri_mut() = uri.clone();
                *request.version_mut() = Version::HTTP_2;
                *request.headers_mut() = self.headers(content, token.header(), &expiration, &id);
                request
            };
            let reply = http::exchange(&self.connections, begins, deadline, request, &content.payload).await;
            let reply = match reply {
                Ok(reply) if reply.status.is_success() => return Answer::Accepted,
                Ok(reply) => reply,
                Err(no_answer) => return no_answer.into(),
            };
            let failure = Failure::parse(&reply.body);
            let other = self.tokens.instead_of(&token, &failure, &reply);
            match other.filter(|_| first) {
                Some(other) => (token, begins, first) = (other, Instant::now(), false),
                None => return failure.meaning(reply.status.as_u16(), reply.retry_after()),
            }
        }
    }

    /// Where this device is called; `None` where that is no device token, which is never put into a path.
    fn uri(&self, token: &str) -> Option<Uri> {
        let digits =
            (1..=TOKEN_DIGITS).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_hexdigit());
        let path = digits.then(|| Bytes::from(format!("/3/device/{token}")))?;
        let (scheme, authority) = self.host.clone();
        let path = PathAndQuery::from_maybe_shared(path).ok()?;
        Uri::builder().scheme(scheme).authority(authority).path_and_query(path).build().ok()
    }

    fn headers(
        &self,
        content: &Content,
        authorization: &HeaderValue,
        expiration: &HeaderValue,
        id: &HeaderValue,
    ) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(HEADERS);
        headers.insert(AUTHORIZATION, authorization.clone());
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(TOPIC, self.topic.clone());
        headers.insert(PUSH_TYPE, content.push_type.clone());
        headers.insert(PRIORITY, content.priority.clone());
        headers.insert(EXPIRATION, expiration.clone());
        headers.insert(COLLAPSE_ID, content.collapse_id.clone());
        headers.insert(ID, id.clone());
        headers
    }
}

/// A UUID of version 8 (RFC 9562, section 5.8) for a delivery: the beginning of the hash of its key.
fn apns_id(delivery_key: &str) -> HeaderValue {
    let hash = Sha256::digest(delivery_key);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    let id = uuid::Builder::from_custom_bytes(bytes).into_uuid();
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    let text = id.hyphenated().encode_lower(&mut text);
    let mut id = HeaderValue::from_str(text).expect("digits and dashes");
    // It never comes again: kept out of the compression's table (RFC 7541, section 6.2.3), where it would push out what does.
    id.set_sensitive(true);
    id
}

#[cfg(test)]
mod tests;
