//! `POST /push`: read, decide and count, let the latency pass, answer.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header::{HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use hyper::{Request, StatusCode};
use serde::Deserialize;

use crate::answer::{self, Answer};
use crate::decision::Verdict;
use crate::keys::MAX_KEY_BYTES;
use crate::ledger::Decided;
use crate::sim::Sim;

pub(crate) const MAX_BODY_BYTES: usize = 256 * 1024;

/// Of a body that is too large, this much is read and thrown away before the refusal: closing a socket with unread
/// data resets it, and the caller would see that instead of the 413.
const MAX_DISCARDED_BYTES: usize = 4 * 1024 * 1024;

const MAX_IDEMPOTENCY_KEY_BYTES: usize = 255;
const MAX_TOKEN_BYTES: usize = 4_096;
const MAX_BROADCAST_ID_BYTES: usize = 255;
const _: () = assert!(MAX_TOKEN_BYTES + 1 + MAX_BROADCAST_ID_BYTES <= MAX_KEY_BYTES);

/// Told with a 429 where nothing else is configured: without it a sender could not tell "slow down" from "go away".
const DEFAULT_THROTTLE_S: u32 = 1;

pub(crate) async fn push(sim: &Arc<Sim>, request: Request<Incoming>) -> Answer {
    let (parts, body) = request.into_parts();
    let body = match read_whole(body).await {
        Ok(body) => body,
        Err(refusal) => return refuse(sim, refusal),
    };
    let (decided, reply) = match count(sim, &parts.headers, &body) {
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
    reply.into_answer(&decided)
}

/// Why a body was not read: with the answer to it.
pub(crate) struct Refusal {
    status: StatusCode,
    error: &'static str,
    detail: String,
}

impl Refusal {
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, error: "malformed", detail: detail.into() }
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

/// What of a push matters here. The rest must be JSON and is skipped.
#[derive(Deserialize)]
struct Push<'a> {
    #[serde(borrow, default)]
    to: Cow<'a, str>,
    #[serde(borrow, default)]
    notification: Notification<'a>,
}

#[derive(Default, Deserialize)]
struct Notification<'a> {
    #[serde(borrow, default)]
    broadcast_id: Cow<'a, str>,
}

/// What of the behaviour the answer needs, taken at the decision: a later `PATCH` must not change what was decided.
#[derive(Clone, Copy)]
struct Reply {
    status: Option<u16>,
    retry_after_s: Option<u32>,
}

fn count(sim: &Sim, headers: &HeaderMap, body: &[u8]) -> Result<(Decided, Reply), Refusal> {
    let push: Push<'_> = serde_json::from_slice(body)
        .map_err(|error| Refusal::malformed(format!("the body is no push in JSON: {error}")))?;
    if push.to.is_empty() || push.to.len() > MAX_TOKEN_BYTES {
        return Err(Refusal::malformed(format!("`to` must be a token of 1 to {MAX_TOKEN_BYTES} bytes")));
    }
    let key = key(headers, &push)?;

    let since_start = sim.since_start();
    let mut state = sim.lock();
    let state = &mut *state;
    let decided = state.ledger.count(&state.behaviour, &key, &push.to, since_start).map_err(|no_room| {
        Refusal { status: StatusCode::INSUFFICIENT_STORAGE, error: "no_room", detail: no_room.to_string() }
    })?;
    let reply = Reply { status: state.behaviour.status, retry_after_s: state.behaviour.retry_after_s };
    Ok((decided, reply))
}

fn key<'a>(headers: &'a HeaderMap, push: &Push<'_>) -> Result<Cow<'a, str>, Refusal> {
    if let Some(key) = headers.get("idempotency-key") {
        return match key.to_str() {
            Ok(key) if (1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&key.len()) => Ok(key.into()),
            _ => Err(Refusal::malformed(format!(
                "Idempotency-Key must be 1 to {MAX_IDEMPOTENCY_KEY_BYTES} bytes of visible ASCII"
            ))),
        };
    }
    let broadcast_id = &push.notification.broadcast_id;
    if broadcast_id.len() > MAX_BROADCAST_ID_BYTES {
        let detail = format!("`notification.broadcast_id` may have {MAX_BROADCAST_ID_BYTES} bytes");
        return Err(Refusal::malformed(detail));
    }
    Ok(format!("{}/{broadcast_id}", push.to).into())
}

fn refuse(sim: &Sim, refusal: Refusal) -> Answer {
    sim.lock().ledger.refused();
    refusal.into_answer()
}

/// A call counted as open, until this is dropped: with the answer, or by hyper because the caller went away.
struct OpenCall<'a>(&'a Sim);

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        self.0.lock().ledger.call_ended();
    }
}

impl Reply {
    fn into_answer(self, decided: &Decided) -> Answer {
        let error =
            |status, text: &'static str| answer::json_text(status, Bytes::from_static(text.as_bytes()));
        let unavailable = || error(StatusCode::SERVICE_UNAVAILABLE, r#"{"error":"unavailable"}"#);
        let mut answer = match decided.verdict {
            Verdict::Accepted | Verdict::Duplicate | Verdict::Suppressed => {
                answer::json_text(StatusCode::OK, format!(r#"{{"id":"{}"}}"#, decided.number))
            }
            Verdict::Unregistered => error(StatusCode::GONE, r#"{"error":"unregistered"}"#),
            Verdict::Rejected => error(StatusCode::BAD_REQUEST, r#"{"error":"rejected"}"#),
            Verdict::Throttled => error(StatusCode::TOO_MANY_REQUESTS, r#"{"error":"throttled"}"#),
            Verdict::Transient | Verdict::Failing | Verdict::Outage | Verdict::Hung => unavailable(),
            Verdict::Overridden => error(StatusCode::OK, r#"{"error":"overridden"}"#),
        };
        if let Some(status) = self.status.and_then(|status| StatusCode::from_u16(status).ok()) {
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
            StatusCode::TOO_MANY_REQUESTS => Some(self.retry_after_s.unwrap_or(DEFAULT_THROTTLE_S)),
            StatusCode::SERVICE_UNAVAILABLE => self.retry_after_s,
            _ => None,
        };
        if let Some(seconds) = retry_after_s {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}
