//! The `webhook` provider: one HTTP POST of JSON per delivery.
//!
//! ```json
//! {"to": "<token>", "notification": {"broadcast_id": "…", "title": "…", "body": "…", "data": {…}}}
//! ```
//!
//! `Idempotency-Key` is the same for every attempt of a delivery, so that the receiver can drop a second one.

use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, ensure};
use bongsu_store::webhook_notification;
use bytes::Bytes;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri, Version};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::answer::{self, Answer, Said};
use super::http::{
    self, AGENT, Connections, IDLE_TIMEOUT, KEEPALIVE, Reply, Stage, Turns, innermost, refusal, within,
};
use super::{Brief, Call};

/// Where a webhook provider is called.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Endpoint {
    url: reqwest::Url,
    /// HTTP/2 without TLS, by prior knowledge.
    h2c: bool,
}

impl TryFrom<String> for Endpoint {
    type Error = anyhow::Error;

    fn try_from(text: String) -> anyhow::Result<Self> {
        text.parse()
    }
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

/// What a webhook provider is told beside what all are.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    url: Endpoint,
}

impl Settings {
    /// Nothing but an address.
    pub fn new(url: Endpoint) -> Self {
        Self { url }
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

/// What all calls of a broadcast have in common.
#[derive(Debug)]
pub struct Content(Box<RawValue>);

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[derive(Serialize)]
struct Body<'a> {
    to: &'a str,
    notification: &'a RawValue,
}

impl Webhook {
    /// A client for up to `in_flight` calls at a time, each ended after `timeout`.
    pub fn new(settings: Settings, in_flight: usize, timeout: Duration) -> anyhow::Result<Self> {
        let endpoint = settings.url;
        let connect_timeout = http::connect_timeout(timeout);
        let connections = http::connections_for(in_flight);
        // Credentials in the URL are a header that reqwest makes of them.
        let plain = endpoint.url.username().is_empty() && endpoint.url.password().is_none();
        let client = if endpoint.h2c && plain {
            let uri: Uri = endpoint.url.as_str().parse().context("the address of the webhook")?;
            let connections = Connections::new(uri.clone(), connections, connect_timeout, None)?;
            Client::Http2 { uri, connections }
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

    /// What all calls of a broadcast have in common.
    pub fn prepare(&self, brief: Brief<'_>) -> Content {
        let json = webhook_notification(brief.origin, brief.message);
        Content(RawValue::from_string(json).expect("serde_json wrote it"))
    }

    /// Makes one call. Never longer than the time-out, whatever the other side does.
    pub async fn call(&self, call: Call<'_>, content: &Content) -> Answer {
        let body = match serde_json::to_vec(&Body { to: call.token, notification: &content.0 }) {
            Ok(body) => Bytes::from(body),
            Err(error) => return Answer::Rejected(Said::new("encode", error.to_string())),
        };
        let deadline = call.now + self.timeout;
        let key = call.delivery_key();
        let reply = match &self.client {
            Client::Http2 { uri, connections } => {
                let request = || http2_request(uri, &key, &body);
                http::exchange(connections, call.now, deadline, request, &body).await
            }
            // Boxed: its state is large, and would be part of that of every call.
            Client::Reqwest(client) => Box::pin(client.call(key, body, deadline)).await,
        };
        match reply {
            Ok(reply) => answer::of_webhook(reply.status.as_u16(), reply.retry_after(), reply.text()),
            Err(answer) => answer,
        }
    }
}

impl ReqwestClient {
    async fn call(&self, key: String, body: Bytes, deadline: Instant) -> Result<Reply, Answer> {
        let turn = self.turns.take(Instant::now());
        let request = self.clients[turn]
            .post(self.url.clone())
            .header(CONTENT_TYPE, JSON)
            .header(IDEMPOTENCY_KEY, key)
            .body(body);
        match within(deadline, pin!(request.send())).await {
            Some(Ok(response)) => {
                self.turns.works(turn);
                Ok(Reply::read(response.into(), deadline).await)
            }
            Some(Err(error)) => {
                self.turns.fails(turn, Instant::now());
                let stage = match refusal(&error) {
                    Some(_) => Stage::Refused,
                    None if error.is_connect() => Stage::Unsent,
                    None => Stage::Unknown,
                };
                Err(http::no_answer(stage, innermost(&error)))
            }
            None => Err(http::timed_out()),
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
            let webhook = Webhook::new(Settings::new(endpoint), 1, Duration::from_secs(1)).expect("a client");
            assert_eq!(matches!(webhook.client, Client::Http2 { .. }), own, "{url}");
        }
    }
}
