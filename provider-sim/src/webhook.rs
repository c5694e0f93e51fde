//! `POST /push`: the plain webhook.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use hyper::http::request::Parts;
use serde::Deserialize;

use crate::answer::{self, Answer};
use crate::decision::Verdict;
use crate::keys::MAX_KEY_BYTES;
use crate::push::{Push, Refusal};
use crate::sim::Sim;

const MAX_IDEMPOTENCY_KEY_BYTES: usize = 255;
const MAX_TOKEN_BYTES: usize = 4_096;
const MAX_BROADCAST_ID_BYTES: usize = 255;
const _: () = assert!(MAX_TOKEN_BYTES + 1 + MAX_BROADCAST_ID_BYTES <= MAX_KEY_BYTES);

/// What of a push matters here. The rest must be JSON and is skipped.
#[derive(Deserialize)]
struct Body<'a> {
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

pub(crate) fn read<'a>(sim: &Sim, parts: &'a Parts, body: &'a [u8]) -> Result<Push<'a>, Refusal> {
    if let Some(secret) = &sim.webhook_secret {
        secret.check(&parts.headers, body)?;
    }
    let body: Body<'a> = serde_json::from_slice(body)
        .map_err(|error| Refusal::malformed(format!("the body is no push in JSON: {error}")))?;
    if body.to.is_empty() || body.to.len() > MAX_TOKEN_BYTES {
        return Err(Refusal::malformed(format!("`to` must be a token of 1 to {MAX_TOKEN_BYTES} bytes")));
    }
    Ok(Push { key: key(&parts.headers, &body)?, token: body.to })
}

fn key<'a>(headers: &'a HeaderMap, body: &Body<'_>) -> Result<Cow<'a, str>, Refusal> {
    if let Some(key) = headers.get("idempotency-key") {
        return match key.to_str() {
            Ok(key) if (1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&key.len()) => Ok(key.into()),
            _ => Err(Refusal::malformed(format!(
                "Idempotency-Key must be 1 to {MAX_IDEMPOTENCY_KEY_BYTES} bytes of visible ASCII"
            ))),
        };
    }
    let broadcast_id = &body.notification.broadcast_id;
    if broadcast_id.len() > MAX_BROADCAST_ID_BYTES {
        let detail = format!("`notification.broadcast_id` may have {MAX_BROADCAST_ID_BYTES} bytes");
        return Err(Refusal::malformed(detail));
    }
    Ok(format!("{}/{broadcast_id}", body.to).into())
}

pub(crate) fn reply(verdict: Verdict, number: u64) -> Answer {
    let error = |status, text: &'static str| answer::json_text(status, Bytes::from_static(text.as_bytes()));
    let unavailable = || error(StatusCode::SERVICE_UNAVAILABLE, r#"{"error":"unavailable"}"#);
    match verdict {
        Verdict::Accepted | Verdict::Duplicate | Verdict::Suppressed => {
            answer::json_text(StatusCode::OK, format!(r#"{{"id":"{number}"}}"#))
        }
        Verdict::Unregistered => error(StatusCode::GONE, r#"{"error":"unregistered"}"#),
        Verdict::Mismatched => error(StatusCode::BAD_REQUEST, r#"{"error":"mismatched"}"#),
        Verdict::Rejected => error(StatusCode::BAD_REQUEST, r#"{"error":"rejected"}"#),
        Verdict::Throttled => error(StatusCode::TOO_MANY_REQUESTS, r#"{"error":"throttled"}"#),
        Verdict::Transient | Verdict::Failing | Verdict::Outage | Verdict::Hung => unavailable(),
        Verdict::Overridden => error(StatusCode::OK, r#"{"error":"overridden"}"#),
    }
}
