//! The `webpush` provider: a browser's push service, whichever it has chosen (RFC 8030), a message that only the browser can
//! open (RFC 8291), and who we are (VAPID, RFC 8292).
//!
//! A device's token is the browser's subscription ([`Subscription`]), so whom we call is said by devices: only what is on
//! the public internet is called, and redirects are not followed.

mod answer;
mod encrypt;
mod origins;
mod reach;
mod vapid;

use std::fmt;
use std::net::IpAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bongsu_store::{Priority, Subscription, webhook_notification};
use hyper::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::Url;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use url::Host;

use super::answer::{Answer, Said, Trouble};
use super::credentials::{Credentials, Source};
use super::http::{self, Reply, Trust, within};
use super::{Brief, Call};
use origins::Origins;
use reach::{NotPublic, is_public};
use vapid::{Key, Subject};

const TTL: HeaderName = HeaderName::from_static("ttl");
const TOPIC: HeaderName = HeaderName::from_static("topic");
const URGENCY: HeaderName = HeaderName::from_static("urgency");
const AES128GCM: HeaderValue = HeaderValue::from_static("aes128gcm");
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
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
    /// Messages that are encrypted at the same time: it keeps a core busy, and calls go on meanwhile.
    encrypting: Arc<Semaphore>,
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
        let tls = Trust::new(ca_file.as_deref())?.for_any_http();
        let origins = Origins::new(tls, in_flight, http::connect_timeout(timeout), !allow_private_addresses)?;
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let encrypting = Arc::new(Semaphore::new(cores));
        Ok(Self { key, subject, origins, allow_private_addresses, encrypting, timeout })
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
        let endpoint = subscription.endpoint.clone();
        let body = match self.encrypt(subscription, content, deadline).await {
            Ok(body) => body,
            Err(answer) => return answer,
        };
        // Boxed: its state is large, and would be part of that of every call.
        Box::pin(self.send(endpoint, body, content, call.time_left, deadline)).await
    }

    async fn encrypt(
        &self,
        subscription: Subscription,
        content: &Content,
        deadline: Instant,
    ) -> Result<Vec<u8>, Answer> {
        let message = Arc::clone(&content.message);
        let encrypted = async {
            // Never closed.
            let _one_of_few = self.encrypting.acquire().await;
            tokio::task::spawn_blocking(move || encrypt::encrypt(&subscription, &message)).await
        };
        match tokio::time::timeout_at(deadline, encrypted).await {
            Ok(Ok(Ok(body))) => Ok(body),
            Ok(Ok(Err(_))) => Err(suspect("key", "the browser's key is no point of the curve")),
            Ok(Err(_)) | Err(_) => Err(unsent("encrypt", "the message could not be encrypted in time")),
        }
    }

    async fn send(
        &self,
        endpoint: Url,
        body: Vec<u8>,
        content: &Content,
        time_left: Duration,
        deadline: Instant,
    ) -> Answer {
        let origin = self.origins.of(&endpoint);
        let place = origin.begin();
        let authorization = origin.authorization(&self.key.get(), &self.subject);
        let (Some(client), Some(authorization)) = (self.origins.client(&place), authorization) else {
            return unsent("client", "the call could not be prepared");
        };
        let request = client
            .post(endpoint)
            .header(AUTHORIZATION, authorization)
            .header(CONTENT_ENCODING, AES128GCM)
            .header(CONTENT_TYPE, OCTETS)
            .header(TTL, time_left.as_secs())
            .header(TOPIC, content.topic.clone())
            .header(URGENCY, content.urgency.clone())
            .body(body);
        match within(deadline, pin!(request.send())).await {
            Some(Ok(response)) => {
                let reply = Reply::read(response.into(), deadline).await;
                answer::of(reply.status.as_u16(), reply.retry_after(), reply.text())
            }
            Some(Err(error)) if NotPublic::caused(&error) => not_public(),
            Some(Err(error)) => http::failed(&error),
            None => http::timed_out(),
        }
    }
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
