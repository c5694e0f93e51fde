//! A push of any protocol: read, decide and count, let the latency pass, answer.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header::{HeaderValue, LOCATION, RETRY_AFTER};
use hyper::{Request, StatusCode};

use crate::Behaviour;
use crate::answer::{self, Answer};
use crate::decision::Verdict;
use crate::ledger::Decided;
use crate::protocol::Protocol;
use crate::sim::Sim;

pub(crate) const MAX_BODY_BYTES: usize = 256 * 1024;

/// Of a body that is too large, this much is read and thrown away before the refusal: closing a socket with unread
/// data resets it, and the caller would see that instead of the 413.
const MAX_DISCARDED_BYTES: usize = 4 * 1024 * 1024;

/// Told with a 429 where nothing else is configured: without it a sender could not tell "slow down" from "go away".
const DEFAULT_THROTTLE_S: u32 = 1;

/// A push, as every protocol can be understood.
pub(crate) struct Push<'a> {
    /// Names the delivery: a second one of it is a duplicate.
    pub key: Cow<'a, str>,
    /// What decides its fate where that depends on the device: see the crate's documentation.
    pub token: Cow<'a, str>,
}

pub(crate) async fn push(sim: &Arc<Sim>, protocol: Protocol, request: Request<Incoming>) -> Answer {
    let (parts, body) = request.into_parts();
    let body = match read_whole(body).await {
        Ok(body) => body,
        Err(refusal) => return refuse(sim, refusal.into_answer()),
    };
    let counted = protocol.read(sim, &parts, &body).and_then(|push| count(sim, &push));
    let echo = protocol.echo(&parts);
    let (decided, reply) = match counted {
        Ok(counted) => counted,
        Err(refusal) => return refuse(sim, refusal),
    };
    // From here on the push has happened, whatever becomes of the caller; this only says when it stops being open.
    let _open = OpenCall(sim);
    // Not kept through the latency, as thousands may be waiting.
    drop((parts, body));

    if decided.verdict == Verdict::Hung {
        // Not even at the shutdown, which would otherwise be a 503. Hyper drops this with the connection.
        std::future::pending::<()>().await;
    }
    if let Some(latency) = decided.latency {
        tokio::time::sleep(latency).await;
    }
    let mut answer = reply.of(protocol, &decided);
    if let Some((name, value)) = echo {
        answer.headers_mut().insert(name, value);
    }
    answer
}

/// Why a body was not read: with the answer to it.
pub(crate) struct Refusal {
    status: StatusCode,
    error: &'static str,
    detail: String,
}

impl Refusal {
    pub fn new(status: StatusCode, error: &'static str, detail: impl Into<String>) -> Self {
        Self { status, error, detail: detail.into() }
    }

    pub fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", detail)
    }

    pub fn into_answer(self) -> Answer {
        answer::refusal(self.status, self.error, &self.detail)
    }
}

pub(crate) async fn read_whole(mut body: Incoming) -> Result<Bytes, Refusal> {
    let broken = |error: hyper::Error| Refusal::malformed(format!("the body broke off: {error}"));
    let too_large = || Refusal {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        error: "too_large",
        detail: format!("a body may have {MAX_BODY_BYTES} bytes"),
    };
    // Nearly always the first part is all there is: then it is used as it came.
    let mut whole: Option<Bytes> = None;
    let mut parts = BytesMut::new();
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        read += data.len();
        if read > MAX_DISCARDED_BYTES {
            return Err(too_large());
        }
        if read > MAX_BODY_BYTES {
            continue;
        }
        match whole.take() {
            None if parts.is_empty() => {
                if body.is_end_stream() {
                    return Ok(data);
                }
                whole = Some(data);
            }
            first => {
                parts.extend_from_slice(&first.unwrap_or_default());
                parts.extend_from_slice(&data);
            }
        }
    }
    if read > MAX_BODY_BYTES {
        return Err(too_large());
    }
    Ok(whole.unwrap_or_else(|| parts.freeze()))
}

/// What of the behaviour the answer needs, taken at the decision: a later `PATCH` must not change what was decided.
struct Reply(Behaviour);

fn count(sim: &Sim, push: &Push<'_>) -> Result<(Decided, Reply), Answer> {
    let since_start = sim.since_start();
    let mut state = sim.lock();
    let state = &mut *state;
    let decided =
        state.ledger.count(&state.behaviour, &push.key, &push.token, since_start).map_err(|no_room| {
            Refusal::new(StatusCode::INSUFFICIENT_STORAGE, "no_room", no_room.to_string()).into_answer()
        })?;
    let reply = Reply(state.behaviour.clone());
    Ok((decided, reply))
}

/// What is no push is counted as refused, unless nothing is wrong with it: then it was only to be checked.
fn refuse(sim: &Sim, refusal: Answer) -> Answer {
    if !refusal.status().is_success() {
        sim.lock().ledger.refused();
    }
    refusal
}

/// A call counted as open, until this is dropped: with the answer, or by hyper because the caller went away.
struct OpenCall<'a>(&'a Sim);

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        self.0.lock().ledger.call_ended();
    }
}

impl Reply {
    fn of(self, protocol: Protocol, decided: &Decided) -> Answer {
        let mut answer = protocol.reply(decided.verdict, decided.number, &self.0);
        if let Some(status) = self.0.status.and_then(|status| StatusCode::from_u16(status).ok()) {
            *answer.status_mut() = status;
            if matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED)
            {
                *answer.body_mut() = answer::Body::Whole(Bytes::new());
            }
            if status.is_redirection() {
                // Whoever follows it calls again, and is counted again.
                answer.headers_mut().insert(LOCATION, HeaderValue::from_static("/push"));
            }
        }
        let retry_after_s = match answer.status() {
            StatusCode::TOO_MANY_REQUESTS => Some(self.0.retry_after_s.unwrap_or(DEFAULT_THROTTLE_S)),
            StatusCode::SERVICE_UNAVAILABLE => self.0.retry_after_s,
            _ => None,
        };
        if let Some(seconds) = retry_after_s {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}
