//! The live listeners that users' clients know, and the calls to them.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context as _;
use bongsu_ops::telemetry;
use reqwest::header::{ACCEPT, RETRY_AFTER};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::sse::{Frame, Frames};
use crate::broken::{innermost, tls_problem};
use crate::table::printable;

/// Connections for short calls that are kept for the next ones, per address.
const KEPT_CONNECTIONS: usize = 64;
/// Bytes of a refusal that are read.
const MOST_REFUSAL_BYTES: usize = 16 * 1024;

/// Cheap to clone; all clients of a run share one.
#[derive(Clone, Debug)]
pub struct Network(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Keeps no connection: each stream has its own, and it ends with the stream.
    streams: reqwest::Client,
    calls: reqwest::Client,
    addresses: RwLock<Arc<[String]>>,
    /// How long an answer may take to begin.
    patience: Duration,
}

/// Why there is no stream, or no acknowledgement.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("{address} answered {status} {reason}: {message}")]
    Refused {
        address: String,
        status: StatusCode,
        reason: String,
        message: String,
        /// When to ask again, where the server says it.
        retry_after: Option<Duration>,
    },
    #[error("no answer from {address}: {because}")]
    Unreachable { address: String, because: String },
}

impl Problem {
    /// Whether the same again will be refused again, by whichever server.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.is_client_error() && *status != StatusCode::TOO_MANY_REQUESTS)
    }

    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Unreachable { .. } => None,
        }
    }
}

/// As all HTTP endpoints of the live listener refuse.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Refusal {
    error: RefusalError,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RefusalError {
    reason: String,
    message: String,
}

impl Network {
    /// `patience` is how long an answer may take to begin, `ca` who the servers' certificates are of (PEM; none: as this host
    /// trusts).
    ///
    /// # Errors
    ///
    /// When TLS cannot be set up.
    pub fn new(addresses: Vec<String>, patience: Duration, ca: Option<&[u8]>) -> anyhow::Result<Self> {
        telemetry::install_crypto();
        let build = |idle: usize| {
            let mut builder = reqwest::Client::builder()
                .no_proxy()
                .http1_only()
                .connect_timeout(patience)
                .pool_max_idle_per_host(idle);
            if let Some(ca) = ca {
                builder = builder.tls_certs_only(reqwest::Certificate::from_pem_bundle(ca)?);
            }
            builder.build()
        };
        let streams = build(0).context("the HTTP client cannot be set up")?;
        let calls = build(KEPT_CONNECTIONS).context("the HTTP client cannot be set up")?;
        let addresses = RwLock::new(addresses.into());
        Ok(Self(Arc::new(Inner { streams, calls, addresses, patience })))
    }

    /// Where clients that connect from now on go; those that are connected stay where they are.
    pub fn set(&self, addresses: Vec<String>) {
        *self.0.addresses.write().unwrap_or_else(PoisonError::into_inner) = addresses.into();
    }

    /// Any address, not `but` where there is another one; none where there is none at all.
    pub fn pick(&self, but: Option<&str>) -> Option<String> {
        let addresses = self.0.addresses.read().unwrap_or_else(PoisonError::into_inner).clone();
        let others: Vec<&String> = addresses.iter().filter(|address| Some(address.as_str()) != but).collect();
        match others.len() {
            0 => addresses.first().cloned(),
            count => Some(others[rand::random_range(0..count)].clone()),
        }
    }

    /// Opens a stream that begins after an event, or with what nobody has acknowledged.
    pub async fn open(&self, address: &str, token: &str, after: Option<&str>) -> Result<Stream, Problem> {
        let mut request =
            self.0.streams.get(format!("{address}/v1/live")).header(ACCEPT, "text/event-stream");
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let response = self.answer(request, address, token).await?;
        Ok(Stream { response, frames: Frames::default() })
    }

    /// Says at one server that the user has these notifications.
    pub async fn acknowledge(&self, address: &str, token: &str, ids: &[i64]) -> Result<(), Problem> {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let request = self.0.calls.post(format!("{address}/v1/live/acknowledge"));
        let request = request.json(&json!({ "notification_ids": ids }));
        self.answer(request, address, token).await?;
        Ok(())
    }

    async fn answer(&self, request: RequestBuilder, address: &str, token: &str) -> Result<Response, Problem> {
        let unreachable = |because: String| Problem::Unreachable { address: address.to_owned(), because };
        let answer = tokio::time::timeout(self.0.patience, request.bearer_auth(token).send()).await;
        match answer {
            Ok(Ok(response)) if response.status().is_success() => Ok(response),
            Ok(Ok(response)) => Err(self.refused(response, address).await),
            Ok(Err(error)) => {
                Err(unreachable(tls_problem(&error).map_or_else(|| innermost(&error), str::to_owned)))
            }
            Err(_) => Err(unreachable(format!("nothing within {} s", self.0.patience.as_secs_f64()))),
        }
    }

    async fn refused(&self, mut response: Response, address: &str) -> Problem {
        let status = response.status();
        let retry_after =
            response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(chunk)) = response.chunk().await
                && body.len() < MOST_REFUSAL_BYTES
            {
                body.extend_from_slice(&chunk);
            }
        };
        let _ = tokio::time::timeout(self.0.patience, read).await; // the status says enough
        let Refusal { error } = serde_json::from_slice(&body).unwrap_or_default();
        Problem::Refused {
            address: address.to_owned(),
            status,
            reason: printable(&error.reason),
            message: printable(&error.message),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }
}

/// A stream that was opened. Dropping it closes its connection.
#[derive(Debug)]
pub struct Stream {
    response: Response,
    frames: Frames,
}

impl Stream {
    /// The next event; an error says why there is none any more. Nothing is lost where this is not waited for to its end.
    pub async fn next(&mut self) -> Result<Frame, String> {
        loop {
            if let Some(frame) = self.frames.next().map_err(|error| error.to_string())? {
                return Ok(frame);
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) => self.frames.push(&bytes),
                Ok(None) => return Err("the stream has ended".to_owned()),
                Err(error) => return Err(innermost(&error)),
            }
        }
    }
}
