//! The `fcm` provider: Firebase Cloud Messaging, HTTP v1. One HTTP/2 call per delivery, with an access token that all calls
//! share.

mod account;
mod answers;
mod message;
mod token_endpoint;
mod tokens;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Request, Uri, Version};
use serde::Deserialize;
use tokio::time::Instant;

pub use message::Content;

use super::answer::{Answer, Said};
use super::credentials::{Credentials, Source};
use super::http::{self, AGENT, Connections, Reply, Trust};
use super::{Brief, Call};
use account::{ServiceAccount, send_path};
use token_endpoint::TokenEndpoint;
use tokens::{Token, Tokens};

/// What Google asks everybody to wait before a second attempt, at least.
pub const RETRY_FLOOR: Duration = Duration::from_secs(10);
const GOOGLE: &str = "https://fcm.googleapis.com";
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What an FCM provider is told beside what all are.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// A service account's key file.
    credentials: Source,
    /// The project to send for, where it is not the service account's own.
    project_id: Option<String>,
    /// Where messages are sent to; Google, unless it is a test.
    endpoint: Option<String>,
    /// Where access tokens come from; what the key file says, unless it is a test.
    token_uri: Option<String>,
    /// Whose certificates are believed; the system's where absent.
    ca_file: Option<PathBuf>,
    /// The channel in which Android shows notifications; the app's default where absent.
    android_channel_id: Option<String>,
    /// Have messages checked, and shown to nobody.
    #[serde(default)]
    validate_only: bool,
}

/// An FCM provider, ready to be called.
#[derive(Debug)]
pub struct Fcm {
    connections: Connections,
    authority: Authority,
    /// Of another project than the service account's.
    path: Option<PathAndQuery>,
    tokens: Arc<Tokens>,
    timeout: Duration,
    channel: Option<String>,
    validate_only: bool,
}

impl Fcm {
    /// For up to `in_flight` calls at a time, each ended after `timeout`. Must be called within a runtime.
    ///
    /// # Errors
    ///
    /// When the credentials or the certificates cannot be read, or a setting is wrong.
    pub fn new(settings: Settings, in_flight: usize, timeout: Duration) -> anyhow::Result<Self> {
        let endpoint = settings.endpoint.as_deref().unwrap_or(GOOGLE);
        let uri: Uri = endpoint.parse().with_context(|| format!("endpoint {endpoint:?} is no URL"))?;
        ensure!(
            uri.scheme() == Some(&Scheme::HTTPS) && uri.path() == "/" && uri.query().is_none(),
            "endpoint {endpoint:?} must be https:// and a host"
        );
        let authority = uri.authority().cloned().context("endpoint names no host")?;
        let token_uri = settings.token_uri.map(|text| {
            let url = reqwest::Url::parse(&text).with_context(|| format!("token_uri {text:?} is no URL"))?;
            ensure!(url.scheme() == "https", "token_uri {text:?} must begin with https://");
            Ok(url)
        });
        let path = settings.project_id.as_deref().map(send_path).transpose()?;
        let trust = Trust::new(settings.ca_file.as_deref())?;
        let endpoint = TokenEndpoint::new(token_uri.transpose()?, &trust)?;
        let count = http::connections_for(in_flight);
        let connections = Connections::new(uri, count, http::connect_timeout(timeout), Some(&trust))?;
        let credentials = Credentials::load(settings.credentials, ServiceAccount::parse)?;
        Ok(Self {
            connections,
            authority,
            path,
            tokens: Tokens::new(credentials, endpoint),
            timeout,
            channel: settings.android_channel_id,
            validate_only: settings.validate_only,
        })
    }

    /// What all calls of a broadcast have in common.
    pub fn prepare(&self, brief: Brief<'_>) -> Content {
        Content::new(brief, self.channel.as_deref(), self.validate_only)
    }

    /// Makes one call. Never longer than the time-out, whatever the other side does. Where the access token was not taken,
    /// it is made once more with a new one: FCM has not looked at the message.
    pub async fn call(&self, call: Call<'_>, content: &Content) -> Answer {
        let deadline = call.now + self.timeout;
        let mut refused_before = false;
        loop {
            let token = match self.tokens.get(deadline).await {
                Ok(token) => token,
                Err(not_granted) => return not_granted.into_answer(),
            };
            let reply = match self.send(call, content, &token, deadline).await {
                Ok(reply) => reply,
                Err(answer) => return answer,
            };
            let status = reply.status.as_u16();
            let answer = answers::of_fcm(status, reply.retry_after(), &reply.body);
            if refused_before || !answers::refuses_the_token(status, &answer) {
                return answer;
            }
            self.tokens.refused(&token);
            refused_before = true;
        }
    }

    async fn send(
        &self,
        call: Call<'_>,
        content: &Content,
        token: &Token,
        deadline: Instant,
    ) -> Result<Reply, Answer> {
        let now = Instant::now();
        // The token may have been waited for.
        let time_left = call.time_left.saturating_sub(now - call.now);
        let unix_now = u64::try_from(self.tokens.endpoint.unix_now()).unwrap_or_default();
        let body = content
            .body(call.token, time_left, unix_now)
            .map_err(|error| Answer::Rejected(Said::new("encode", error.to_string())))?;
        let request = || self.request(token, &body);
        Ok(http::exchange(&self.connections, now, deadline, request, &body).await?)
    }

    fn request(&self, token: &Token, body: &Bytes) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri(token);
        *request.version_mut() = Version::HTTP_2;
        let headers = request.headers_mut();
        // The same for many calls, so left to the compression's table: it is long, and the connection is ours alone.
        headers.insert(AUTHORIZATION, token.bearer.clone());
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        request
    }

    fn uri(&self, token: &Token) -> Uri {
        let mut parts = hyper::http::uri::Parts::default();
        parts.scheme = Some(Scheme::HTTPS);
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(self.path.as_ref().unwrap_or(&token.account.path).clone());
        Uri::from_parts(parts).expect("scheme, authority and path are there")
    }
}
