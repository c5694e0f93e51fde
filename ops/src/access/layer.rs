//! What stands before every call of our gRPC ports: who calls, whether they may, and whether it is not too much.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use http_body_util::BodyExt as _;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::{Extensions, HeaderMap, Request, Response};
use tower::{Layer, Service};

use super::ReflectionPolicy;
use super::caller::Caller;
use super::clients::{Client, Clients};
use super::methods::Method;
use super::refusal;
use super::usage::{OpenStream, Usage};
use crate::grpc::Peer;
use crate::reload::Reloaded;

/// Always open: balancers and orchestrators have no tokens, and it tells no more than `/ready`.
const HEALTH: &str = "/grpc.health.v1.Health/";
/// Both versions.
const REFLECTION: &str = "/grpc.reflection.";
/// RFC 6750, section 2.1; the scheme's case does not matter.
const BEARER: &str = "bearer ";

/// Wraps the services.
#[derive(Clone)]
pub struct AccessLayer {
    gate: Arc<Gate>,
}

struct Gate {
    /// None: there is one client that may do everything.
    clients: Option<Arc<Reloaded<Clients>>>,
    everybody: Caller,
    methods: &'static [Method],
    reflection: ReflectionPolicy,
    usage: Usage,
}

/// What a call is let in with.
#[derive(Default)]
struct Admitted {
    caller: Caller,
    stream: Option<OpenStream>,
}

impl AccessLayer {
    pub(super) fn new(
        clients: Option<Arc<Reloaded<Clients>>>,
        default_client: &str,
        methods: &'static [Method],
        reflection: ReflectionPolicy,
    ) -> Self {
        let everybody = Caller::everybody(default_client);
        Self { gate: Arc::new(Gate { clients, everybody, methods, reflection, usage: Usage::default() }) }
    }
}

impl<S> Layer<S> for AccessLayer {
    type Service = Access<S>;

    fn layer(&self, inner: S) -> Access<S> {
        Access { inner, gate: Arc::clone(&self.gate) }
    }
}

/// A service behind the gate.
#[derive(Clone)]
pub struct Access<S> {
    inner: S,
    gate: Arc<Gate>,
}

impl<S> Service<Request<Body>> for Access<S>
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

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let admitted = match self.gate.admit(path, request.headers(), request.extensions()) {
            Ok(admitted) => admitted,
            Err(refusal) => {
                tracing::debug!(path, code = ?refusal.code(), "a call was refused");
                return Box::pin(std::future::ready(Ok(refusal.into_http())));
            }
        };
        // Nobody further in has a use for the token.
        request.headers_mut().remove(AUTHORIZATION);
        request.extensions_mut().insert(admitted.caller);
        let answer = self.inner.call(request);
        match admitted.stream {
            None => Box::pin(answer),
            Some(stream) => Box::pin(async move {
                let response = answer.await?;
                // The body owns it, so that it counts until the body's end.
                let held = move |frame| {
                    let _open = &stream;
                    frame
                };
                Ok(response.map(|body| Body::new(body.map_frame(held))))
            }),
        }
    }
}

impl Gate {
    fn admit(
        &self,
        path: &str,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<Admitted, Box<Status>> {
        if path.starts_with(HEALTH) {
            return Ok(Admitted::default());
        }
        let reflects = path.starts_with(REFLECTION);
        match self.reflection {
            ReflectionPolicy::Off if reflects => return Err(Box::new(refusal::unknown_method())),
            ReflectionPolicy::Open if reflects => return Ok(Admitted::default()),
            _ => {}
        }
        let Some(clients) = &self.clients else {
            return Ok(Admitted { caller: self.everybody.clone(), stream: None });
        };
        let clients = clients.get();
        let client = authenticate(&clients, headers, extensions).map_err(Box::new)?;
        if let (Err(wait), Some(rate)) = (self.usage.call(client, Instant::now()), client.requests_per_second)
        {
            return Err(Box::new(refusal::rate_exceeded(rate, wait)));
        }
        let caller = client.caller.clone();
        if reflects {
            return Ok(Admitted { caller, stream: None });
        }
        let method = self.methods.iter().find(|method| method.path == path);
        let method = method.ok_or_else(|| Box::new(refusal::unknown_method()))?;
        if !caller.has_any(method.roles) {
            return Err(Box::new(refusal::role_missing(method.roles)));
        }
        if !method.streams {
            return Ok(Admitted { caller, stream: None });
        }
        match self.usage.stream(client) {
            Some(stream) => Ok(Admitted { caller, stream: Some(stream) }),
            None => Err(Box::new(refusal::streams_exceeded(client.streams.unwrap_or_default()))),
        }
    }
}

/// By the token, where there is one; else by the certificate.
fn authenticate<'a>(
    clients: &'a Clients,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<&'a Arc<Client>, Status> {
    let mut tokens = headers.get_all(AUTHORIZATION).iter();
    if let Some(header) = tokens.next() {
        let bearer = header.as_bytes().split_at_checked(BEARER.len());
        let token = bearer
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(BEARER.as_bytes()))
            .map(|(_, token)| token);
        // With two it could be argued which one counts.
        let token = token.filter(|_| tokens.next().is_none());
        return token.and_then(|token| clients.by_token(token)).ok_or_else(refusal::token_unknown);
    }
    let names = extensions.get::<Peer>().map(|peer| &*peer.names).unwrap_or_default();
    if names.is_empty() {
        return Err(refusal::token_missing());
    }
    clients.by_certificate(names).ok_or_else(refusal::certificate_unknown)
}
