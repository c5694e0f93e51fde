//! The `webhook` provider: one HTTP POST of JSON per delivery.
//!
//! ```json
//! {"to": "<token>", "notification": {"broadcast_id": "…", "title": "…", "body": "…", "data": {…}}}
//! ```
//!
//! `Idempotency-Key` is the same for every attempt of a delivery, so that the receiver can drop a second one.

use std::pin::{Pin, pin};
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::{Buf as _, Bytes};
use http_body_util::BodyExt as _;
use hyper::header::{
    CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, Request, Response, Uri, Version};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::answer::{self, Answer, Said, Trouble};
use super::http2::{Connections, NoAnswer, Stage, innermost, refusal};
use super::turns::Turns;
use bongsu_store::{BroadcastId, DeviceId};

/// Streams that one HTTP/2 connection is trusted to carry: servers commonly allow 100 to 250, and calls beyond the limit
/// wait inside the client.
const STREAMS_PER_CONNECTION: usize = 95;
/// Of a failure's body, what is kept to explain it.
const DETAIL_BYTES: usize = 512;
/// A body is read to this length, so that its connection can be used again; one that is longer costs its connection.
const BODY_BYTES: usize = 64 * 1024;
/// Establishing a connection may take this long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Beside its time-out, a call gets this long for what is in the socket already.
const LAST_LOOK: Duration = Duration::from_millis(250);
/// An idle connection is kept this long.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// A long HTTP/2 connection is asked whether it lives this often, and given up after the time-out.
pub(super) const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));

/// Where a webhook provider is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: reqwest::Url,
    /// HTTP/2 without TLS, by prior knowledge.
    h2c: bool,
}

impl std::str::FromStr for Endpoint {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (h2c, http) = match text.strip_prefix("h2c://") {
            Some(rest) => (true, format!("http://{rest}")),
            None => (false, text.to_string()),
        };
        let url = reqwest::Url::parse(&http).with_context(|| format!("{text:?} is not a URL"))?;
        ensure!(
            matches!(url.scheme(), "http" | "https"),
            "{text:?} must begin with https://, http:// or h2c://"
        );
        ensure!(url.host_str().is_some_and(|h| !h.is_empty()), "{text:?} names no host");
        Ok(Self { url, h2c })
    }
}

/// A webhook provider, ready to be called.
#[derive(Debug)]
pub struct Webhook {
    client: Client,
    timeout: Duration,
}

#[derive(Debug)]
enum Client {
    /// Where it is known beforehand that the other side speaks HTTP/2.
    Http2 { uri: Uri, connections: Connections },
    /// Everywhere else.
    Reqwest(ReqwestClient),
}

#[derive(Debug)]
struct ReqwestClient {
    url: reqwest::Url,
    /// Where it may be HTTP/2, one for each connection.
    clients: Vec<reqwest::Client>,
    turns: Turns,
}

const AGENT: &str = concat!("bongsu/", env!("CARGO_PKG_VERSION"));
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[derive(Serialize)]
struct Body<'a> {
    to: &'a str,
    notification: &'a RawValue,
}

impl Webhook {
    /// A client for up to `in_flight` calls at a time, each ended after `timeout`.
    pub fn new(endpoint: Endpoint, in_flight: usize, timeout: Duration) -> anyhow::Result<Self> {
        // Before the call's own time-out, so that it is known that nothing was sent.
        let connect_timeout = CONNECT_TIMEOUT.min(timeout * 3 / 4);
        let connections = in_flight.div_ceil(STREAMS_PER_CONNECTION);
        // Credentials in the URL are a header that reqwest makes of them.
        let plain = endpoint.url.username().is_empty() && endpoint.url.password().is_none();
        let client = if endpoint.h2c && plain {
            let uri: Uri = endpoint.url.as_str().parse().context("the address of the webhook")?;
            Client::Http2 { connections: Connections::new(uri.clone(), connections, connect_timeout), uri }
        } else {
            let http2 = endpoint.h2c || endpoint.url.scheme() == "https";
            let count = if http2 { connections } else { 1 };
            let client = || {
                let mut builder = reqwest::Client::builder()
                    .user_agent(AGENT)
                    .redirect(reqwest::redirect::Policy::none())
                    .no_proxy()
                    .connect_timeout(connect_timeout)
                    .tcp_nodelay(true)
                    .pool_idle_timeout(IDLE_TIMEOUT)
                    .pool_max_idle_per_host(in_flight)
                    .http2_keep_alive_interval(KEEPALIVE.0)
                    .http2_keep_alive_timeout(KEEPALIVE.1);
                if endpoint.h2c {
                    builder = builder.http2_prior_knowledge();
                }
                builder.build().context("building the HTTP client")
            };
            let clients = (0..count).map(|_| client()).collect::<anyhow::Result<_>>()?;
            Client::Reqwest(ReqwestClient { url: endpoint.url, clients, turns: Turns::new(count) })
        };
        Ok(Self { client, timeout })
    }

    /// Makes one call, which begins now. Never longer than the time-out, whatever the other side does.
    pub async fn call(
        &self,
        now: Instant,
        broadcast: BroadcastId,
        device: DeviceId,
        token: &str,
        notification: &RawValue,
    ) -> Answer {
        let body = match serde_json::to_vec(&Body { to: token, notification }) {
            Ok(body) => Bytes::from(body),
            Err(error) => return Answer::Rejected(Said::new("encode", error.to_string())),
        };
        let deadline = now + self.timeout;
        let key = delivery_key(broadcast, device);
        match &self.client {
            Client::Http2 { uri, connections } => {
                let request = || http2_request(uri, &key, &body);
                // A statement of its own, so that what sends is gone when the answer is read.
                let answer = within(deadline, pin!(connections.send(now, request, &body))).await;
                match answer {
                    Some(Ok(response)) => read(response, deadline).await,
                    Some(Err(NoAnswer { stage, cause, .. })) => no_answer(stage, cause),
                    None => timed_out(),
                }
            }
            // Boxed: its state is large, and would be part of that of every call.
            Client::Reqwest(client) => Box::pin(client.call(key, body, deadline)).await,
        }
    }
}

impl ReqwestClient {
    async fn call(&self, key: String, body: Bytes, deadline: Instant) -> Answer {
        let turn = self.turns.take(Instant::now());
        let request = self.clients[turn]
            .post(self.url.clone())
            .header(CONTENT_TYPE, JSON)
            .header(IDEMPOTENCY_KEY, key)
            .body(body);
        match within(deadline, pin!(request.send())).await {
            Some(Ok(response)) => {
                self.turns.works(turn);
                read(response.into(), deadline).await
            }
            Some(Err(error)) => {
                self.turns.fails(turn, Instant::now());
                let stage = match refusal(&error) {
                    Some(_) => Stage::Refused,
                    None if error.is_connect() => Stage::Unsent,
                    None => Stage::Unknown,
                };
                no_answer(stage, innermost(&error))
            }
            None => timed_out(),
        }
    }
}

fn http2_request(uri: &Uri, key: &str, body: &Bytes) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri.clone();
    *request.version_mut() = Version::HTTP_2;
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    // Digits and a dash, so always a header's value.
    if let Ok(mut key) = HeaderValue::from_str(key) {
        // It never comes again: kept out of the compression's table (RFC 7541, section 6.2.3), where it would push out what does.
        key.set_sensitive(true);
        headers.insert(IDEMPOTENCY_KEY, key);
    }
    request
}

fn no_answer(stage: Stage, cause: String) -> Answer {
    let (trouble, code) = match stage {
        Stage::Unsent => (Trouble::Unreachable, "connect"),
        Stage::Refused => (Trouble::Unreachable, "refused"),
        Stage::Unknown => (Trouble::Unknown, "broken"),
    };
    Answer::Trouble { trouble, retry_after: None, said: Said::new(code, cause) }
}

fn timed_out() -> Answer {
    Answer::Trouble { trouble: Trouble::Unknown, retry_after: None, said: Said::new("timeout", "") }
}

/// Waits for an answer until `deadline` and [`LAST_LOOK`] longer. After this process stood still (stopped, or its machine paused)
/// timers are the first thing it notices, and the answer may have been in the socket for long.
async fn within<T>(deadline: Instant, mut answer: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    match tokio::time::timeout_at(deadline, &mut answer).await {
        Ok(answer) => Some(answer),
        Err(_) => tokio::time::timeout(LAST_LOOK, answer).await.ok(),
    }
}

/// The same for every attempt, and for no other delivery.
fn delivery_key(broadcast: BroadcastId, device: DeviceId) -> String {
    format!("{broadcast}-{device}")
}

/// What an answer means, its body read as far as it comes until `deadline`.
async fn read<B>(response: Response<B>, deadline: Instant) -> Answer
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
{
    let (head, mut body) = response.into_parts();
    let pause = asked_pause(&head.headers);
    let keep = if head.status.is_success() { 0 } else { DETAIL_BYTES };
    let (mut read, mut detail) = (0, Vec::with_capacity(keep));
    // A provider that accepted has accepted, even if the rest of its answer never comes.
    while read < BODY_BYTES {
        match tokio::time::timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => {
                let Ok(chunk) = frame.into_data() else { continue };
                read += chunk.remaining();
                detail.extend(chunk.iter().take(keep - detail.len()));
            }
            Ok(None | Some(Err(_))) | Err(_) => break,
        }
    }
    answer::of_webhook(head.status.as_u16(), pause, String::from_utf8_lossy(&detail).into_owned())
}

fn asked_pause(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|v| v.to_str().ok());
    answer::retry_after(text(RETRY_AFTER)?, text(DATE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_https_http_or_h2c_and_anything_else_is_named() {
        assert!("https://push.example/v1".parse::<Endpoint>().is_ok());
        assert!("h2c://127.0.0.1:8090/push".parse::<Endpoint>().is_ok_and(|e| e.h2c));
        for bad in ["", "push.example", "ftp://push.example", "http://"] {
            let error = bad.parse::<Endpoint>().expect_err(bad);
            assert!(format!("{error:#}").contains(bad), "{error:#}");
        }
    }

    #[test]
    fn credentials_in_the_url_of_an_h2c_webhook_are_left_to_the_client_that_sends_them() {
        for (url, own) in
            [("h2c://push.example", true), ("h2c://u:p@push.example", false), ("h2c://u@push.example", false)]
        {
            let endpoint = url.parse().expect("an endpoint");
            bongsu_ops::telemetry::install_crypto();
            let webhook = Webhook::new(endpoint, 1, Duration::from_secs(1)).expect("a client");
            assert_eq!(matches!(webhook.client, Client::Http2 { .. }), own, "{url}");
        }
    }

    #[test]
    fn the_delivery_key_tells_deliveries_apart() {
        assert_eq!(delivery_key(BroadcastId(12), DeviceId(3)), "12-3");
        assert_ne!(delivery_key(BroadcastId(1), DeviceId(23)), delivery_key(BroadcastId(12), DeviceId(3)));
    }
}
