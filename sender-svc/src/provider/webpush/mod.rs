//! The `webpush` provider: a browser's push service, whichever it has chosen (RFC 8030), a message that only the browser can
//! open (RFC 8291), and who we are (VAPID, RFC 8292).
//!
//! A device's token is the browser's subscription ([`Subscription`]), so whom we call is said by devices: only what is on
//! the public internet is called, and redirects are not followed.

mod answer;
mod encrypt;
mod encryptors;
mod origins;
mod vapid;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bongsu_store::{Priority, Subscription, webhook_notification};
use bytes::Bytes;
use hyper::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    USER_AGENT,
};
use hyper::{Method, Request, Uri, Version};
use reqwest::Url;
use serde::Deserialize;
use tokio::time::Instant;
use url::Host;

use super::answer::{Answer, Said, Trouble};
use super::credentials::{Credentials, Source};
use super::http::{self, AGENT, NoAnswer, NotPublic, Reply, Stage, Trust, is_public, within};
use super::{Brief, Call};
use encryptors::Encryptors;
use origins::Origins;
use vapid::{Key, Subject};

const TTL: HeaderName = HeaderName::from_static("ttl");
const TOPIC: HeaderName = HeaderName::from_static("topic");
const URGENCY: HeaderName = HeaderName::from_static("urgency");
const AES128GCM: HeaderValue = HeaderValue::from_static("aes128gcm");
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
/// The headers of a request.
const HEADERS: usize = 8;
/// The port of push services: others are somebody's internal ones.
const HTTPS: u16 = 443;

/// What a web push provider is told beside what all are.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Our private key.
    credentials: Source,
    subject: Subject,
    /// The only certificates to believe, in PEM; the system's where absent.
    ca_file: Option<PathBuf>,
    /// For tests: calls whatever a device names, also what only we can reach.
    #[serde(default)]
    allow_private_addresses: bool,
}

/// A web push provider, ready to be called.
#[derive(Debug)]
pub struct WebPush {
    key: Arc<Credentials<Key>>,
    subject: Subject,
    origins: Origins,
    allow_private_addresses: bool,
    encryptors: Encryptors,
    timeout: Duration,
}

/// What all calls of a broadcast have in common.
pub struct Content {
    message: Arc<[u8]>,
    /// Of two messages of one topic that a push service still holds, it keeps the later: so a second call of a delivery
    /// replaces the first.
    topic: HeaderValue,
    urgency: HeaderValue,
}

// Nothing of the message.
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("topic", &self.topic).finish_non_exhaustive()
    }
}

impl WebPush {
    /// For up to `in_flight` calls at a time, each ended after `timeout`. Must be called within a runtime.
    ///
    /// # Errors
    ///
    /// When the key or the certificates cannot be read, or are not what they should be.
    pub fn new(settings: Settings, in_flight: usize, timeout: Duration) -> anyhow::Result<Self> {
        let Settings { credentials, subject, ca_file, allow_private_addresses } = settings;
        let key = Credentials::load(credentials, Key::parse).context("the private key")?;
        let trust = Trust::new(ca_file.as_deref())?;
        let origins =
            Origins::new(trust, in_flight, http::connect_timeout(timeout), !allow_private_addresses)?;
        let encryptors = Encryptors::new()?;
        Ok(Self { key, subject, origins, allow_private_addresses, encryptors, timeout })
    }

    /// What all calls of a broadcast have in common.
    pub fn prepare(&self, brief: Brief<'_>) -> Content {
        let urgency = match brief.priority {
            Priority::Low => "low",
            Priority::Normal => "normal",
            Priority::High => "high",
        };
        Content {
            message: webhook_notification(brief.origin, brief.message).into_bytes().into(),
            // Digits: at most 32 characters of base64url, as it must be (RFC 8030, section 5.4).
            topic: HeaderValue::from(brief.origin.0),
            urgency: HeaderValue::from_static(urgency),
        }
    }

    /// Makes one call. Never longer than the time-out, whatever the other side does.
    pub async fn call(&self, call: Call<'_>, content: &Content) -> Answer {
        let subscription = match Subscription::parse(call.token) {
            Ok(subscription) => subscription,
            Err(bad) => return suspect("subscription", bad.to_string()),
        };
        if !self.allow_private_addresses
            && let Some(refused) = refuse(&subscription.endpoint)
        {
            return refused;
        }
        let deadline = call.now + self.timeout;
        let message = Arc::clone(&content.message);
        let encrypted = self.encryptors.encrypt(subscription, message);
        let (endpoint, body) = match tokio::time::timeout_at(deadline, encrypted).await {
            Ok(Some((subscription, Ok(body)))) => (subscription.endpoint, body),
            Ok(Some((_, Err(_)))) => return suspect("key", "the browser's key is no point of the curve"),
            Ok(None) | Err(_) => return unsent("encrypt", "the message could not be encrypted in time"),
        };
        // Boxed: its state is large, and would be part of that of every call.
        Box::pin(self.send(endpoint, body, content, call.time_left, deadline)).await
    }

    async fn send(
        &self,
        endpoint: Url,
        body: Bytes,
        content: &Content,
        time_left: Duration,
        deadline: Instant,
    ) -> Answer {
        let origin = self.origins.of(&endpoint);
        let place = origin.begin();
        let prepared = origin
            .authorization(&self.key.get(), &self.subject)
            .map(|authorization| headers(authorization, content, time_left))
            .zip(endpoint.as_str().parse::<Uri>().ok())
            .zip(self.origins.connections(&place));
        let Some(((headers, uri), connections)) = prepared else {
            return unsent("client", "the call could not be prepared");
        };
        let mut reply = Err(NoAnswer::new(Stage::NotHttp2, String::new()));
        if !origin.is_other_http() {
            let request = || http2_request(&uri, &headers, body.len());
            reply = http::exchange(connections, Instant::now(), deadline, request, &body).await;
        }
        if let Err(NoAnswer { stage: Stage::NotHttp2, .. }) = reply {
            let Some(client) = self.origins.other_http(&place) else {
                return unsent("client", "the call could not be prepared");
            };
            let request = client.post(endpoint).headers(headers).body(body);
            reply = match within(deadline, pin!(request.send())).await {
                Some(Ok(response)) => Ok(Reply::read(response.into(), deadline).await),
                Some(Err(error)) => Err(http::failed(&error)),
                None => Err(NoAnswer::timed_out()),
            };
        }
        match reply {
            Ok(reply) => answer::of(reply.status.as_u16(), reply.retry_after(), reply.text()),
            Err(no_answer) => no_answer.into(),
        }
    }
}

/// What any HTTP is told.
fn headers(authorization: HeaderValue, content: &Content, time_left: Duration) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(HEADERS);
    headers.insert(AUTHORIZATION, authorization);
    headers.insert(CONTENT_ENCODING, AES128GCM);
    headers.insert(CONTENT_TYPE, OCTETS);
    headers.insert(TTL, HeaderValue::from(time_left.as_secs()));
    headers.insert(TOPIC, content.topic.clone());
    headers.insert(URGENCY, content.urgency.clone());
    headers
}

fn http2_request(uri: &Uri, headers: &HeaderMap, length: usize) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri.clone();
    *request.version_mut() = Version::HTTP_2;
    let mut headers = headers.clone();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    *request.headers_mut() = headers;
    request
}

/// Why this endpoint is not called, as far as its text says. What its name stands for is looked at when it is called.
fn refuse(endpoint: &Url) -> Option<Answer> {
    if endpoint.port_or_known_default() != Some(HTTPS) {
        return Some(suspect("port", format!("a push service is called at port {HTTPS} only")));
    }
    let address = match endpoint.host() {
        Some(Host::Ipv4(address)) => IpAddr::V4(address),
        Some(Host::Ipv6(address)) => IpAddr::V6(address),
        Some(Host::Domain(_)) => return None,
        None => return Some(not_public()),
    };
    (!is_public(address)).then(not_public)
}

fn suspect(code: &str, detail: impl Into<String>) -> Answer {
    Answer::Suspect(Said::new(code, detail))
}

fn not_public() -> Answer {
    suspect("not_public", NotPublic.to_string())
}

fn unsent(code: &str, detail: &str) -> Answer {
    Answer::Trouble { trouble: Trouble::Unreachable, retry_after: None, said: Said::new(code, detail) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_names_an_internal_address_or_port_is_refused_by_its_text() {
        for (endpoint, code) in [
            ("https://push.example/a", None),
            ("https://push.example:443/a", None),
            ("https://1.1.1.1/a", None),
            ("https://push.example:8443/a", Some("port")),
            ("https://127.0.0.1/a", Some("not_public")),
            ("https://0x7f.1/a", Some("not_public")),
            ("https://2130706433/a", Some("not_public")),
            ("https://169.254.169.254/latest", Some("not_public")),
            ("https://[::1]/a", Some("not_public")),
            ("https://[::ffff:10.0.0.1]/a", Some("not_public")),
        ] {
            let refused = refuse(&endpoint.parse().expect("a URL"));
            let said = refused.as_ref().map(|refused| match refused {
                Answer::Suspect(said) => said.code.as_str(),
                other => panic!("{other:?}"),
            });
            assert_eq!(said, code, "{endpoint}");
        }
    }
}
