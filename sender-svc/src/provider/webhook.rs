//! The `webhook` provider: one HTTP POST of JSON per delivery.
//!
//! ```json
//! {"to": "<token>", "notification": {"broadcast_id": "…", "title": "…", "body": "…", "data": {…}}}
//! ```
//!
//! `Idempotency-Key` is the same for every attempt of a delivery, so that the receiver can drop a second one.

use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, RETRY_AFTER};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::answer::{self, Answer, Said, Trouble};
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
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// A long HTTP/2 connection is asked whether it lives this often, and given up after the time-out.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));

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
    url: reqwest::Url,
    /// One connection each for HTTP/2.
    clients: Vec<reqwest::Client>,
    turns: Turns,
    timeout: Duration,
}

#[derive(Serialize)]
struct Body<'a> {
    to: &'a str,
    notification: &'a RawValue,
}

impl Webhook {
    /// A client for up to `in_flight` calls at a time, each ended after `timeout`.
    pub fn new(endpoint: Endpoint, in_flight: usize, timeout: Duration) -> anyhow::Result<Self> {
        let http2 = endpoint.h2c || endpoint.url.scheme() == "https";
        let count = if http2 { in_flight.div_ceil(STREAMS_PER_CONNECTION) } else { 1 };
        let clients = (0..count)
            .map(|_| {
                let mut builder = reqwest::Client::builder()
                    .user_agent(concat!("bongsu/", env!("CARGO_PKG_VERSION")))
                    .redirect(reqwest::redirect::Policy::none())
                    .no_proxy()
                    // Before the call's own time-out, so that it is known that nothing was sent.
                    .connect_timeout(CONNECT_TIMEOUT.min(timeout * 3 / 4))
                    .tcp_nodelay(true)
                    .pool_idle_timeout(IDLE_TIMEOUT)
                    .pool_max_idle_per_host(in_flight)
                    .http2_keep_alive_interval(KEEPALIVE.0)
                    .http2_keep_alive_timeout(KEEPALIVE.1);
                if endpoint.h2c {
                    builder = builder.http2_prior_knowledge();
                }
                builder.build().context("building the HTTP client")
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Self { url: endpoint.url, clients, turns: Turns::new(count), timeout })
    }

    /// Makes one call. Never longer than the time-out, whatever the other side does.
    pub async fn call(
        &self,
        broadcast: BroadcastId,
        device: DeviceId,
        token: &str,
        notification: &RawValue,
    ) -> Answer {
        let body = match serde_json::to_vec(&Body { to: token, notification }) {
            Ok(body) => body,
            Err(error) => return Answer::Rejected(Said::new("encode", error.to_string())),
        };
        let turn = self.turns.take(Instant::now());
        let request = self.clients[turn]
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("idempotency-key", delivery_key(broadcast, device))
            .body(body);
        let deadline = Instant::now() + self.timeout;
        match within(deadline, request.send()).await {
            Some(Ok(response)) => {
                self.turns.works(turn);
                read(response, deadline).await
            }
            Some(Err(error)) => {
                self.turns.fails(turn, Instant::now());
                trouble(&error)
            }
            None => Answer::Trouble {
                trouble: Trouble::Unknown,
                retry_after: None,
                said: Said::new("timeout", ""),
            },
        }
    }
}

/// Waits for an answer until `deadline` and [`LAST_LOOK`] longer. After this process stood still (stopped, or its machine paused)
/// timers are the first thing it notices, and the answer may have been in the socket for long.
async fn within<T>(deadline: Instant, answer: impl Future<Output = T>) -> Option<T> {
    let mut answer = std::pin::pin!(answer);
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
async fn read(mut response: reqwest::Response, deadline: Instant) -> Answer {
    let status = response.status();
    let pause = asked_pause(response.headers());
    let keep = if status.is_success() { 0 } else { DETAIL_BYTES };
    let (mut read, mut detail) = (0, Vec::with_capacity(keep));
    // A provider that accepted has accepted, even if the rest of its answer never comes.
    while read < BODY_BYTES {
        match tokio::time::timeout_at(deadline, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                read += chunk.len();
                detail.extend(chunk.iter().take(keep - detail.len()));
            }
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    answer::of_webhook(status.as_u16(), pause, String::from_utf8_lossy(&detail).into_owned())
}

fn asked_pause(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|v| v.to_str().ok());
    answer::retry_after(text(RETRY_AFTER)?, text(DATE))
}

fn trouble(error: &reqwest::Error) -> Answer {
    let mut refused = false;
    // The innermost cause says most, and has no URL in it.
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
        refused |= cause.downcast_ref().is_some_and(refused_unseen);
    }
    let code = if refused {
        "refused"
    } else if error.is_timeout() {
        "timeout"
    } else if error.is_connect() {
        "connect"
    } else {
        "broken"
    };
    // Whatever is neither a failure to connect nor refused may have come after the request was written, and been read.
    let trouble = if refused || error.is_connect() { Trouble::Unreachable } else { Trouble::Unknown };
    Answer::Trouble { trouble, retry_after: None, said: Said::new(code, cause.to_string()) }
}

/// Whether the provider says that it did not look at the call (RFC 9113, section 8.7): it is beyond the last one that a
/// GOAWAY names, which is the only call that ends with a GOAWAY of the other side, or it was reset with REFUSED_STREAM. Where
/// the reason is harmless, the client has made it again on another connection twice before it says so.
fn refused_unseen(error: &h2::Error) -> bool {
    error.is_remote()
        && (error.is_go_away() || error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM))
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
    fn the_delivery_key_tells_deliveries_apart() {
        assert_eq!(delivery_key(BroadcastId(12), DeviceId(3)), "12-3");
        assert_ne!(delivery_key(BroadcastId(1), DeviceId(23)), delivery_key(BroadcastId(12), DeviceId(3)));
    }
}
