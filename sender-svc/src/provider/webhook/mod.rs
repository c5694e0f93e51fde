//! The `webhook` provider: one HTTP POST of JSON per delivery.
//!
//! ```json
//! {"to": "<token>", "notification": {"broadcast_id": "…", "title": "…", "body": "…", "data": {…}}}
//! ```
//!
//! Or with a body of the operator's shape ([`template`]), with headers of his own, and signed ([`extras`]).
//!
//! `Idempotency-Key` is the same for every attempt of a delivery, so that the receiver can drop a second one.

mod endpoint;
mod extras;
mod signature;
mod template;

use std::fmt;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, ensure};
use bongsu_ops::trace::TRACEPARENT;
use bongsu_store::{Message, webhook_notification};
use bytes::Bytes;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri, Version};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::answer::{self, Answer, Said};
use super::credentials::Source;
use super::http::{self, AGENT, Connections, NoAnswer, Reply, Trust, Turns, within};
use super::{Brief, Call};
pub use endpoint::Endpoint;
use extras::{Extras, Headers};
use template::{Template, Values};

/// What a webhook provider is told beside what all are.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    url: Endpoint,
    #[serde(default)]
    headers: Headers,
    body: Option<BodyTemplate>,
    /// What calls are signed with.
    secret: Option<Source>,
    /// The only certificates to believe, in PEM; the system's where absent.
    ca_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct BodyTemplate(Template);

impl TryFrom<String> for BodyTemplate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Template::try_from(text).map(Self).map_err(|error| format!("{error:#}"))
    }
}

impl Settings {
    /// Nothing but an address.
    pub fn new(url: Endpoint) -> Self {
        Self { url, headers: Headers::default(), body: None, secret: None, ca_file: None }
    }
}

/// A webhook provider, ready to be called.
#[derive(Debug)]
pub struct Webhook {
    client: Client,
    template: Option<Template>,
    extras: Option<Extras>,
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
pub struct Content(Shape);

// Nothing of the message.
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").finish_non_exhaustive()
    }
}

enum Shape {
    Notification(Box<RawValue>),
    /// For the template.
    Parts {
        message: Message,
        broadcast_id: String,
    },
}

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
        let Settings { url: endpoint, headers, body, secret, ca_file } = settings;
        ensure!(
            ca_file.is_none() || endpoint.url.scheme() == "https",
            "ca_file is of no use without an https:// address"
        );
        let extras = Extras::load(headers, secret)?;
        let tls = ca_file.map(|path| Trust::new(Some(&path))).transpose()?.map(|trust| trust.for_any_http());
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
                let mut builder = http::client(in_flight, connect_timeout);
                if endpoint.h2c {
                    builder = builder.http2_prior_knowledge();
                }
                if let Some(tls) = &tls {
                    builder = builder.tls_backend_preconfigured(tls.clone());
                }
                builder.build().context("building the HTTP client")
            };
            let clients = (0..count).map(|_| client()).collect::<anyhow::Result<_>>()?;
            Client::Reqwest(ReqwestClient { url: endpoint.url, clients, turns: Turns::new(count) })
        };
        Ok(Self { client, template: body.map(|body| body.0), extras, timeout })
    }

    /// What all calls of a broadcast have in common.
    pub fn prepare(&self, brief: Brief<'_>) -> Content {
        Content(match self.template {
            Some(_) => {
                Shape::Parts { message: brief.message.clone(), broadcast_id: brief.origin.to_string() }
            }
            None => {
                let json = webhook_notification(brief.origin, brief.message);
                Shape::Notification(RawValue::from_string(json).expect("serde_json wrote it"))
            }
        })
    }

    fn body(&self, token: &str, key: &str, content: &Content) -> serde_json::Result<Vec<u8>> {
        match (&content.0, &self.template) {
            (Shape::Parts { message, broadcast_id }, Some(template)) => {
                let Message { title, body, data } = message;
                template.fill(Values { token, title, body, data, broadcast_id, delivery_key: key })
            }
            (Shape::Notification(notification), _) => serde_json::to_vec(&Body { to: token, notification }),
            // Prepared by a provider that has a template, and called by one that has none.
            (Shape::Parts { .. }, None) => Err(serde::ser::Error::custom("the template is missing")),
        }
    }

    /// Makes one call. Never longer than the time-out, whatever the other side does.
    pub async fn call(&self, call: Call<'_>, content: &Content) -> Answer {
        let key = call.delivery_key();
        let body = match self.body(call.token, &key, content) {
            Ok(body) => Bytes::from(body),
            Err(error) => return Answer::Rejected(Said::new("encode", error.to_string())),
        };
        let mut more = self.extras.as_ref().map(|extras| extras.headers(&key, &body));
        if let Some(trace) = call.trace.and_then(|trace| HeaderValue::from_str(trace).ok()) {
            more.get_or_insert_default().insert(TRACEPARENT, trace);
        }
        let deadline = call.now + self.timeout;
        let reply = match &self.client {
            Client::Http2 { uri, connections } => {
                let request = || http2_request(uri, &key, &body, more.as_ref());
                http::exchange(connections, call.now, deadline, request, &body).await
            }
            // Boxed: its state is large, and would be part of that of every call.
            Client::Reqwest(client) => Box::pin(client.call(key, body, more, deadline)).await,
        };
        match reply {
            Ok(reply) => answer::of_webhook(reply.status.as_u16(), reply.retry_after(), reply.text()),
            Err(no_answer) => no_answer.into(),
        }
    }
}

impl ReqwestClient {
    async fn call(
        &self,
        key: String,
        body: Bytes,
        more: Option<HeaderMap>,
        deadline: Instant,
    ) -> Result<Reply, NoAnswer> {
        let turn = self.turns.take(Instant::now());
        let request = self.clients[turn]
            .post(self.url.clone())
            .header(CONTENT_TYPE, JSON)
            .header(IDEMPOTENCY_KEY, key)
            .headers(more.unwrap_or_default())
            .body(body);
        match within(deadline, pin!(request.send())).await {
            Some(Ok(response)) => {
                self.turns.works(turn);
                Ok(Reply::read(response.into(), deadline).await)
            }
            Some(Err(error)) => {
                self.turns.fails(turn, Instant::now());
                Err(http::failed(&error))
            }
            None => Err(NoAnswer::timed_out()),
        }
    }
}

fn http2_request(uri: &Uri, key: &str, body: &Bytes, more: Option<&HeaderMap>) -> Request<()> {
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
    if let Some(more) = more {
        headers.extend(more.clone());
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

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
