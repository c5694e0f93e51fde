//! One HTTP call, and what every kind of provider does alike about it: its time-out, what a missing answer means, how much of
//! an answer is read.

mod connections;
mod reach;
mod tls;
mod turns;

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http_body_util::BodyExt as _;
use hyper::header::{DATE, HeaderMap, RETRY_AFTER};
use hyper::{Request, Response, StatusCode};
use tokio::time::Instant;

use connections::refusal;
pub(crate) use connections::{Connections, NoAnswer, Stage, innermost};
pub(crate) use reach::{Lookup, NotPublic, is_public};
pub(crate) use tls::Trust;
pub(crate) use turns::Turns;

use super::answer::{self, Answer, Said, Trouble};

/// What we call ourselves.
pub(crate) const AGENT: &str = concat!("bongsu/", env!("CARGO_PKG_VERSION"));
/// Streams that one HTTP/2 connection is trusted to carry: servers commonly allow 100 to 250, and calls beyond the limit
/// wait inside the client.
pub(crate) const STREAMS_PER_CONNECTION: usize = 95;
/// Of a failure's body, what is kept: enough for the JSON in which providers explain themselves.
const KEPT_BYTES: usize = 4_096;
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

/// How many connections carry so many calls at a time.
pub(crate) fn connections_for(in_flight: usize) -> usize {
    in_flight.div_ceil(STREAMS_PER_CONNECTION)
}

/// How long establishing a connection may take, for calls of up to `timeout`: before the call's own time-out, so that it is
/// known that nothing was sent.
pub(crate) fn connect_timeout(timeout: Duration) -> Duration {
    CONNECT_TIMEOUT.min(timeout * 3 / 4)
}

/// What every reqwest client of ours is made with, for connections that carry up to `calls` at a time.
pub(crate) fn client(calls: usize, connect_timeout: Duration) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(connect_timeout)
        .tcp_nodelay(true)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(calls)
        .http2_keep_alive_interval(KEEPALIVE.0)
        .http2_keep_alive_timeout(KEEPALIVE.1)
}

/// What a provider answered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The beginning of the body; of a success, nothing.
    pub body: Vec<u8>,
}

impl Reply {
    /// The pause that it asks for.
    pub fn retry_after(&self) -> Option<Duration> {
        let text = |name| self.headers.get(name).and_then(|v| v.to_str().ok());
        answer::retry_after(text(RETRY_AFTER)?, text(DATE))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Takes a whole response in, as far as its body comes until `deadline`.
    pub async fn read<B>(response: Response<B>, deadline: Instant) -> Self
    where
        B: hyper::body::Body<Data = Bytes> + Unpin,
    {
        let (head, mut body) = response.into_parts();
        let keep = if head.status.is_success() { 0 } else { KEPT_BYTES };
        let (mut read, mut kept) = (0, Vec::new());
        // A provider that accepted has accepted, even if the rest of its answer never comes.
        while read < BODY_BYTES {
            match tokio::time::timeout_at(deadline, body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    let Ok(chunk) = frame.into_data() else { continue };
                    read += chunk.remaining();
                    kept.extend(chunk.iter().take(keep - kept.len()));
                }
                Ok(None | Some(Err(_))) | Err(_) => break,
            }
        }
        Self { status: head.status, headers: head.headers, body: kept }
    }
}

/// Makes one HTTP/2 call, which begins now and ends by `deadline` whatever the other side does. `request` makes the head, for
/// each try anew.
pub(crate) async fn exchange(
    connections: &Connections,
    now: Instant,
    deadline: Instant,
    request: impl Fn() -> Request<()>,
    body: &Bytes,
) -> Result<Reply, NoAnswer> {
    // A statement of its own, so that what sends is gone when the answer is read.
    let answer = within(deadline, pin!(connections.send(now, request, body))).await;
    match answer {
        Some(Ok(response)) => Ok(Reply::read(response, deadline).await),
        Some(Err(no_answer)) => Err(no_answer),
        None => Err(NoAnswer::timed_out()),
    }
}

/// What it means for the delivery.
impl From<NoAnswer> for Answer {
    fn from(NoAnswer { stage, cause, .. }: NoAnswer) -> Self {
        no_answer(stage, cause)
    }
}

/// Why reqwest has no answer.
pub(crate) fn failed(error: &reqwest::Error) -> NoAnswer {
    let stage = match refusal(error) {
        Some(_) => Stage::Refused,
        None if NotPublic::caused(error) => Stage::NotPublic,
        None if error.is_connect() => Stage::Unsent,
        None => Stage::Unknown,
    };
    NoAnswer::new(stage, innermost(error))
}

fn no_answer(stage: Stage, cause: String) -> Answer {
    let (trouble, code) = match stage {
        Stage::NotPublic => return Answer::Suspect(Said::new("not_public", cause)),
        Stage::NotHttp2 | Stage::Unsent => (Trouble::Unreachable, "connect"),
        Stage::Refused => (Trouble::Unreachable, "refused"),
        Stage::Unknown => (Trouble::Unknown, "broken"),
        Stage::TimedOut => (Trouble::Unknown, "timeout"),
    };
    Answer::Trouble { trouble, retry_after: None, said: Said::new(code, cause) }
}

/// Waits for an answer until `deadline` and [`LAST_LOOK`] longer. After this process stood still (stopped, or its machine
/// paused) timers are the first thing it notices, and the answer may have been in the socket for long.
pub(crate) async fn within<T>(deadline: Instant, mut answer: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    match tokio::time::timeout_at(deadline, &mut answer).await {
        Ok(answer) => Some(answer),
        Err(_) => tokio::time::timeout(LAST_LOOK, answer).await.ok(),
    }
}
