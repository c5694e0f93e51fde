//! HTTP/2 connections of our own for the calls of the hot path: a fixed number, each opened when it is first needed and again
//! when it is gone.
//!
//! Everything else uses reqwest. Here its layers (a pool that is locked for each call, redirects, boxed services and bodies)
//! count: in a prototype with everything else alike, 36,000 deliveries a second with reqwest were 56,000 and more with hyper's
//! connections. Those start a task and a channel for each call; with h2 itself, the call waits for its own answer.

use std::error::Error;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, ready};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _, Shared};
use h2::client::{ResponseFuture, SendRequest};
use h2::{Ping, PingPong, RecvStream};
use hyper::body::{Body, Frame};
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tower::Service as _;

use super::reach::{Lookup, NotPublic};
use super::tls::Trust;
use super::turns::Turns;
use super::{IDLE_TIMEOUT, KEEPALIVE};

/// A call that the peer says it did not look at is made again, on another connection, at most so many times.
const TRIES: usize = 3;
/// Streams that we gave up and the peer has not noticed: more, and the connection ends. All may time out at once.
const MOST_RESET_STREAMS: usize = 1_024;
/// Of answers that are not read at once, a peer may send us so much: one, and all of a connection. No answer is longer than what
/// is read of it.
const WINDOWS: (u32, u32) = (1 << 16, 1 << 22);
/// Headers of an answer may take so much.
const HEADER_BYTES: u32 = 1 << 14;

/// One connection; each call has its own of these.
#[derive(Debug, Clone)]
struct Connection {
    calls: SendRequest<Bytes>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// It takes no more calls.
    ended: AtomicBool,
}

type Opening = Shared<BoxFuture<'static, Result<Connection, Unopened>>>;

/// Connections to one address.
#[derive(Debug)]
pub struct Connections {
    target: Target,
    slots: Vec<Mutex<Slot>>,
    turns: Turns,
}

/// Where connections go, and how.
#[derive(Debug, Clone)]
struct Target {
    uri: Uri,
    connector: HttpConnector<Lookup>,
    /// Without: HTTP/2 in clear text, by prior knowledge.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    patience: Duration,
}

#[derive(Debug)]
enum Slot {
    Closed,
    /// Whoever needs it waits for the same attempt, and shares its failure.
    Opening(Opening),
    Open {
        connection: Connection,
        used: Instant,
    },
}

/// Why there is no answer.
#[derive(Debug)]
pub struct NoAnswer {
    pub stage: Stage,
    pub cause: String,
    /// Whether nothing speaks against trying at once.
    again: bool,
}

/// How far a call had come that got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The host may not be called: see [`Connections::public_only`].
    NotPublic,
    /// Nothing was written: the server speaks another HTTP.
    NotHttp2,
    /// Nothing was written.
    Unsent,
    /// The peer says that it did not look at it.
    Refused,
    /// The peer may have taken it.
    Unknown,
    /// The same, when its time was up.
    TimedOut,
}

/// Why a connection could not be established.
#[derive(Debug, Clone)]
struct Unopened {
    stage: Stage,
    cause: Arc<str>,
}

impl Unopened {
    fn because(error: &(dyn Error + 'static)) -> Self {
        let stage = if NotPublic::caused(error) { Stage::NotPublic } else { Stage::Unsent };
        Self { stage, cause: innermost(error).into() }
    }

    fn not_http2() -> Self {
        Self { stage: Stage::NotHttp2, cause: "the server does not speak HTTP/2".into() }
    }
}

impl NoAnswer {
    pub fn new(stage: Stage, cause: String) -> Self {
        Self { stage, cause, again: false }
    }

    /// A call that was given up.
    pub fn timed_out() -> Self {
        Self::new(Stage::TimedOut, String::new())
    }
}

impl Connections {
    /// `count` connections to the host of `uri`, each to be established within `patience`; with TLS where it is https.
    ///
    /// # Errors
    ///
    /// Where the host is no name that a certificate could have.
    pub fn new(uri: Uri, count: usize, patience: Duration, trust: Option<&Trust>) -> anyhow::Result<Self> {
        let connector = connector(Lookup::Any, patience);
        let tls = (uri.scheme_str() == Some("https")).then(|| {
            let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
            let name = ServerName::try_from(host.to_owned()).with_context(|| format!("the host {host:?}"))?;
            let trust = trust.context("https needs to know whose certificates to believe")?;
            anyhow::Ok((trust.for_http2(), name))
        });
        let target = Target { uri, connector, tls: tls.transpose()?, patience };
        let slots = (0..count.max(1)).map(|_| Mutex::new(Slot::Closed)).collect();
        Ok(Self { target, slots, turns: Turns::new(count.max(1)) })
    }

    /// Connects to a host's public addresses only. Whether a host that is an address is public is not looked at.
    pub fn public_only(mut self) -> Self {
        self.target.connector = connector(Lookup::PublicOnly, self.target.patience);
        self
    }

    /// Sends what `request` makes with this body, now, and waits for the head of the answer.
    pub async fn send(
        &self,
        now: Instant,
        request: impl Fn() -> Request<()>,
        body: &Bytes,
    ) -> Result<Response<AnswerBody>, NoAnswer> {
        let mut tries = 1;
        loop {
            let turn = self.turns.take(now);
            let failure = match self.attempt(now, turn, request(), body.clone()).await {
                Ok(response) => {
                    self.turns.works(turn);
                    return Ok(response);
                }
                Err(failure) => failure,
            };
            if failure.stage != Stage::Refused {
                self.turns.fails(turn, Instant::now());
            }
            if !failure.again || tries == TRIES {
                return Err(failure);
            }
            tries += 1;
        }
    }

    async fn attempt(
        &self,
        now: Instant,
        turn: usize,
        request: Request<()>,
        body: Bytes,
    ) -> Result<Response<AnswerBody>, NoAnswer> {
        let connection = self.connection(now, turn).await;
        let connection =
            connection.map_err(|unopened| NoAnswer::new(unopened.stage, unopened.cause.to_string()))?;
        let answer = connection.begin(request, body).await.map_err(|error| {
            // It is going away: whoever comes next opens another.
            connection.state.ended.store(true, Ordering::Relaxed);
            NoAnswer { stage: Stage::Unsent, again: true, cause: innermost(&error) }
        })?;
        let answer = answer.await.map_err(|error| {
            let cause = innermost(&error);
            match refusal(&error) {
                Some(Refusal { harmless }) => NoAnswer { stage: Stage::Refused, again: harmless, cause },
                None => NoAnswer::new(Stage::Unknown, cause),
            }
        })?;
        Ok(answer.map(AnswerBody))
    }

    async fn connection(&self, now: Instant, turn: usize) -> Result<Connection, Unopened> {
        let slot = &self.slots[turn];
        let opening = match &mut *lock(slot) {
            // One that was idle for long may have been forgotten by a box on the way.
            Slot::Open { connection, used } if !connection.has_ended() && now < *used + IDLE_TIMEOUT => {
                *used = now;
                return Ok(connection.clone());
            }
            Slot::Opening(opening) => opening.clone(),
            slot => {
                let opening = self.target.clone().open().boxed().shared();
                *slot = Slot::Opening(opening.clone());
                opening
            }
        };
        let opened = opening.clone().await;
        let mut slot = lock(slot);
        if matches!(&*slot, Slot::Opening(current) if current.ptr_eq(&opening)) {
            *slot = match &opened {
                Ok(connection) => Slot::Open { connection: connection.clone(), used: Instant::now() },
                Err(_) => Slot::Closed,
            };
        }
        opened
    }
}

fn connector(lookup: Lookup, patience: Duration) -> HttpConnector<Lookup> {
    let mut connector = HttpConnector::new_with_resolver(lookup);
    connector.set_connect_timeout(Some(patience));
    connector.set_nodelay(true);
    connector.enforce_http(false);
    connector
}

fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Target {
    async fn open(mut self) -> Result<Connection, Unopened> {
        let stream = self.connector.call(self.uri).await.map_err(|error| Unopened::because(&error))?;
        let stream = stream.into_inner();
        let Some((tls, name)) = self.tls else { return greet(stream).await };
        let shaken = tokio::time::timeout(self.patience, TlsConnector::from(tls).connect(name, stream)).await;
        let too_long = || Unopened { stage: Stage::Unsent, cause: "the TLS handshake took too long".into() };
        let stream = match shaken.map_err(|_| too_long())? {
            Ok(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => stream,
            // A server either chooses another protocol, or ends the handshake for want of one (RFC 7301, section 3.2).
            Ok(_) => return Err(Unopened::not_http2()),
            Err(error) if no_common_protocol(&error) => return Err(Unopened::not_http2()),
            Err(error) => return Err(Unopened::because(&error)),
        };
        greet(stream).await
    }
}

fn no_common_protocol(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)))
}

/// Begins HTTP/2 on a connection.
async fn greet(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Connection, Unopened> {
    let (calls, mut driver) = h2::client::Builder::new()
        .enable_push(false)
        .initial_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .max_header_list_size(HEADER_BYTES)
        .max_concurrent_reset_streams(MOST_RESET_STREAMS)
        .handshake(stream)
        .await
        .map_err(|error| Unopened::because(&error))?;
    let state = Arc::<State>::default();
    let watched = Arc::downgrade(&state);
    let pings = driver.ping_pong();
    // It ends with the last use of the connection; what went wrong is told to each call.
    tokio::spawn(async move {
        tokio::select! {
            _ = driver => {}
            () = until_silent(pings, &watched) => {}
        }
        if let Some(state) = watched.upgrade() {
            state.ended.store(true, Ordering::Relaxed);
        }
    });
    Ok(Connection { calls, state })
}

/// Ends when a ping has no answer. Only a connection with calls under way is asked.
async fn until_silent(pings: Option<PingPong>, state: &Weak<State>) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        tokio::time::sleep(KEEPALIVE.0).await;
        // One is the slot's, and each call has one until its answer begins.
        if state.strong_count() <= 1 {
            continue;
        }
        match tokio::time::timeout(KEEPALIVE.1, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection ends by itself.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}

impl Connection {
    fn has_ended(&self) -> bool {
        self.state.ended.load(Ordering::Relaxed)
    }

    /// Hands the request to the connection. It has not been written when this fails.
    async fn begin(&self, request: Request<()>, body: Bytes) -> Result<ResponseFuture, h2::Error> {
        let mut calls = self.calls.clone().ready().await?;
        let (answer, mut rest) = calls.send_request(request, false)?;
        rest.send_data(body, true)?;
        Ok(answer)
    }
}

/// What comes after the head of an answer.
#[derive(Debug)]
pub struct AnswerBody(RecvStream);

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let data = ready!(self.0.poll_data(context));
        if let Some(Ok(data)) = &data {
            // Fails only where the stream is gone, and then there is nothing to make room for.
            let _ = self.0.flow_control().release_capacity(data.len());
        }
        Poll::Ready(data.map(|data| data.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}

/// The peer says that it did not look at a call (RFC 9113, section 8.7): it is beyond the last one that a GOAWAY names, which
/// is the only call that ends with a GOAWAY of the other side, or it was reset with REFUSED_STREAM.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusal {
    harmless: bool,
}

pub(crate) fn refusal(error: &(dyn Error + 'static)) -> Option<Refusal> {
    let mut error = error;
    let error = loop {
        match error.downcast_ref::<h2::Error>() {
            Some(found) => break found,
            None => error = error.source()?,
        }
    };
    let reset = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    let refused = error.is_remote() && (error.is_go_away() || reset);
    refused.then(|| Refusal { harmless: reset || error.reason() == Some(h2::Reason::NO_ERROR) })
}

/// The innermost cause says most, and has no URL in it.
pub(crate) fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
