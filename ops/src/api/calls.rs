//! What happens around every call: it is refused while we stop or have too much to do, it ends, and it is measured.
//!
//! Health and reflection pass untouched, so that an overloaded process still answers its probes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::{database_unavailable, draining, overloaded, with_reason};

/// How long a call may take to be answered. Statements have shorter limits, which the server keeps: who reaches this one
/// waits for a database that vanished without a word.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// How a service measures its calls; names of metrics are its own.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    /// The label of a method, by its path; None for what is not ours, and passes untouched.
    pub label: fn(&str) -> Option<&'static str>,
    /// A call ended: its label, its code, how long it took.
    pub record: fn(&'static str, Code, Duration),
}

/// Wraps the services.
#[derive(Clone)]
pub struct CallsLayer {
    gate: Arc<Gate>,
}

/// Who may come in.
struct Gate {
    permits: Arc<Semaphore>,
    limit: usize,
    shutdown: CancellationToken,
    /// What people call this process: `intake`, `sender`.
    service: &'static str,
    meter: Meter,
    /// Labels of the methods that take as long as their client sends.
    client_streams: &'static [&'static str],
}

impl CallsLayer {
    /// At most `limit` calls at a time, and no new ones after `shutdown`. Each is answered within [`DEADLINE`], but those of
    /// `client_streams` (labels), which set their own limits. A stream of answers counts until it begins.
    pub fn new(
        limit: usize,
        shutdown: CancellationToken,
        service: &'static str,
        meter: Meter,
        client_streams: &'static [&'static str],
    ) -> Self {
        let permits = Arc::new(Semaphore::new(limit));
        Self { gate: Arc::new(Gate { permits, limit, shutdown, service, meter, client_streams }) }
    }
}

impl<S> Layer<S> for CallsLayer {
    type Service = Calls<S>;

    fn layer(&self, inner: S) -> Calls<S> {
        Calls { inner, gate: Arc::clone(&self.gate) }
    }
}

/// A service behind the gate.
#[derive(Clone)]
pub struct Calls<S> {
    inner: S,
    gate: Arc<Gate>,
}

impl<S> Service<Request<Body>> for Calls<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let meter = self.gate.meter;
        let Some(method) = (meter.label)(request.uri().path()) else {
            return Box::pin(self.inner.call(request));
        };
        let started = Instant::now();
        let permit = match self.gate.enter() {
            Ok(permit) => permit,
            Err(refusal) => {
                (meter.record)(method, refusal.code(), started.elapsed());
                return Box::pin(std::future::ready(Ok(refusal.into_http())));
            }
        };
        let answer = self.inner.call(request);
        let deadline = if self.gate.client_streams.contains(&method) { Duration::MAX } else { DEADLINE };
        Box::pin(async move {
            let response = match tokio::time::timeout(deadline, answer).await {
                Ok(response) => response?,
                Err(_) => database_unavailable().into_http(),
            };
            drop(permit);
            // An error comes in the headers; without one there, the call is answered.
            let Some(error) = Status::from_header_map(response.headers()) else {
                (meter.record)(method, Code::Ok, started.elapsed());
                return Ok(response);
            };
            let told = with_reason(error);
            (meter.record)(method, told.code(), started.elapsed());
            Ok(told.into_http())
        })
    }
}

impl Gate {
    fn enter(&self) -> Result<tokio::sync::OwnedSemaphorePermit, Box<Status>> {
        if self.shutdown.is_cancelled() {
            return Err(Box::new(draining(self.service)));
        }
        Arc::clone(&self.permits)
            .try_acquire_owned()
            .map_err(|_| Box::new(overloaded(self.service, self.limit)))
    }
}
