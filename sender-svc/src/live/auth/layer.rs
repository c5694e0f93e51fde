//! What stands before everything that the live channel serves: who the user is, and whose page asks.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, ORIGIN};
use axum::http::{HeaderMap, Method, Request, Response, Uri};
use tower::{Layer, Service};

use super::refused::Refused;
use super::{Authenticator, Source, User, credential};

const GRPC: &[u8] = b"application/grpc";

/// Wraps the services.
#[derive(Clone)]
pub struct AuthLayer {
    authenticator: Arc<Authenticator>,
}

impl AuthLayer {
    pub fn new(authenticator: Arc<Authenticator>) -> Self {
        Self { authenticator }
    }
}

impl<S> Layer<S> for AuthLayer {
    type Service = Auth<S>;

    fn layer(&self, inner: S) -> Auth<S> {
        Auth { inner, authenticator: Arc::clone(&self.authenticator) }
    }
}

/// Services that find a [`User`] in the extensions of each request.
#[derive(Clone)]
pub struct Auth<S> {
    inner: S,
    authenticator: Arc<Authenticator>,
}

impl<S, B> Service<Request<B>> for Auth<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let authenticator = Arc::clone(&self.authenticator);
        if let Some(answer) = authenticator.origins.preflight(request.method(), request.headers()) {
            return Box::pin(std::future::ready(Ok(answer)));
        }
        let origin = request.headers().get(ORIGIN).cloned();
        let user = match admit(&authenticator, &request) {
            Ok(user) => user,
            Err(refused) => {
                tracing::debug!(
                    path = request.uri().path(),
                    reason = refused.reason(),
                    "a live client was refused"
                );
                let mut answer = answer(refused, request.headers());
                authenticator.origins.answer(origin.as_ref(), answer.headers_mut());
                return Box::pin(std::future::ready(Ok(answer)));
            }
        };
        strip(&mut request);
        request.extensions_mut().insert(user);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut answer = answer.await?;
            authenticator.origins.answer(origin.as_ref(), answer.headers_mut());
            Ok(answer)
        })
    }
}

fn admit<B>(authenticator: &Authenticator, request: &Request<B>) -> Result<User, Refused> {
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    // A ticket opens a stream. It has been in an address, and may be read in a log: so it changes nothing, and makes no other.
    let query = uri.query().filter(|_| method == Method::GET);
    let (user, source) = authenticator.identify(headers, query)?;
    if source == Source::Cookie && !authenticator.origins.trusts_cookie(method, uri, headers) {
        return Err(Refused::ForeignOrigin);
    }
    Ok(user)
}

fn answer(refused: Refused, headers: &HeaderMap) -> Response<Body> {
    let grpc = headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(GRPC));
    if grpc { refused.into_status().into_http() } else { refused.into_response() }
}

/// Nobody further in has a use for what says who calls.
fn strip<B>(request: &mut Request<B>) {
    request.headers_mut().remove(AUTHORIZATION);
    request.headers_mut().remove(COOKIE);
    let uri = request.uri();
    let Some(query) = uri.query() else { return };
    let kept = credential::without_ticket(query);
    if kept == query {
        return;
    }
    let path = if kept.is_empty() { uri.path().to_owned() } else { format!("{}?{kept}", uri.path()) };
    let mut parts = uri.clone().into_parts();
    // A part of what was an address is one.
    parts.path_and_query = path.parse().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}
