//! HTTP/2 connections of our own for the calls of the hot path: a fixed number, each opened when it is first needed and again
//! when it is gone.
//!
//! Everything else uses reqwest. Here its layers (a pool that is locked for each call, redirects, boxed services and bodies)
//! count: in a prototype with everything else alike, 36,000 deliveries a second with reqwest were 56,000 and more with hyper's
//! connections.

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _, Shared};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::Instant;
use tower::Service as _;

use super::turns::Turns;
use super::webhook::{IDLE_TIMEOUT, KEEPALIVE};

/// A call that the peer says it did not look at is made again, on another connection, at most so many times.
const TRIES: usize = 3;
/// Streams that we gave up and the peer has not noticed: more, and the connection ends. All may time out at once.
const MOST_RESET_STREAMS: usize = 1_024;

type Connection = SendRequest<Full<Bytes>>;
type Opening = Shared<BoxFuture<'static, Result<Connection, Arc<str>>>>;

/// Connections to one address.
#[derive(Debug)]
pub struct Connections {
    target: Uri,
    connector: HttpConnector,
    slots: Vec<Mutex<Slot>>,
    turns: Turns,
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
    /// Nothing was written.
    Unsent,
    /// The peer says that it did not look at it.
    Refused,
    /// The peer may have taken it.
    Unknown,
}

impl Connections {
    /// `count` connections to the host of `target`, each to be established within `patience`.
    pub fn new(target: Uri, count: usize, patience: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(patience));
        connector.set_nodelay(true);
        let slots = (0..count.max(1)).map(|_| Mutex::new(Slot::Closed)).collect();
        Self { target, connector, slots, turns: Turns::new(count.max(1)) }
    }

    /// Sends what `request` makes, now, and waits for the head of the answer.
    pub async fn send(
        &self,
        now: Instant,
        request: impl Fn() -> Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, NoAnswer> {
        let mut tries = 1;
        loop {
            let turn = self.turns.take(now);
            let failure = match self.attempt(now, turn, &request).await {
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
        request: &impl Fn() -> Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, NoAnswer> {
        let mut connection = self.connection(now, turn).await.map_err(|cause| NoAnswer {
            stage: Stage::Unsent,
            again: false,
            cause: cause.to_string(),
        })?;
        connection.try_send_request(request()).await.map_err(|mut failure| {
            let cause = innermost(failure.error());
            if failure.take_message().is_some() {
                return NoAnswer { stage: Stage::Unsent, again: true, cause };
            }
            match refusal(failure.error()) {
                Some(Refusal { harmless }) => NoAnswer { stage: Stage::Refused, again: harmless, cause },
                None => NoAnswer { stage: Stage::Unknown, again: false, cause },
            }
        })
    }

    async fn connection(&self, now: Instant, turn: usize) -> Result<Connection, Arc<str>> {
        let slot = &self.slots[turn];
        let opening = match &mut *lock(slot) {
            // One that was idle for long may have been forgotten by a box on the way.
            Slot::Open { connection, used } if !connection.is_closed() && now < *used + IDLE_TIMEOUT => {
                *used = now;
                return Ok(connection.clone());
            }
            Slot::Opening(opening) => opening.clone(),
            slot => {
                let opening = open(self.connector.clone(), self.target.clone()).boxed().shared();
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

fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn open(mut connector: HttpConnector, target: Uri) -> Result<Connection, Arc<str>> {
    let stream = connector.call(target).await.map_err(|error| Arc::from(innermost(&error)))?;
    let (connection, driver) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE.0)
        .keep_alive_timeout(KEEPALIVE.1)
        .max_concurrent_reset_streams(MOST_RESET_STREAMS)
        .handshake(stream)
        .await
        .map_err(|error| Arc::from(innermost(&error)))?;
    // It ends with the last use of the connection; what went wrong is told to each call.
    tokio::spawn(driver);
    Ok(connection)
}

/// The peer says that it did not look at a call (RFC 9113, section 8.7): it is beyond the last one that a GOAWAY names, which
/// is the only call that ends with a GOAWAY of the other side, or it was reset with REFUSED_STREAM.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal {
    harmless: bool,
}

pub(super) fn refusal(error: &(dyn Error + 'static)) -> Option<Refusal> {
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
pub(super) fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
