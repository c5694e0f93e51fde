//! A stream as server-sent events.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bongsu_store::GapReason;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};

use super::hub::{End, Item, Stream};

/// When a browser comes back whose connection broke: all of them do when a process dies.
const RETRY_MS: RangeInclusive<u32> = 1_000..=5_000;

/// Answers with the stream. The first bytes go out at once.
pub fn response(stream: Stream, heartbeat: Duration) -> Response {
    let first = format!(
        "retry: {}\n\nevent: connected\ndata: {{\"heartbeat_ms\":{}}}\n\n",
        rand::random_range(RETRY_MS),
        heartbeat.as_millis(),
    );
    let events = Events { next: Some(first.into()), stream };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        // Nothing between us and the browser may keep it, wait for more of it, or compress it.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::new(events)).into_response()
}

struct Events {
    /// Goes out before anything else.
    next: Option<Bytes>,
    stream: Stream,
}

impl HttpBody for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(next) = self.next.take() {
            return Poll::Ready(Some(Ok(Frame::data(next))));
        }
        self.stream.poll_next(cx).map(|item| {
            let bytes = match item? {
                Item::Event(event, text) => {
                    let (own, rest) = text.sse(&event, self.stream.epoch());
                    self.next = Some(rest);
                    own
                }
                Item::Gap(reason) => {
                    let reason = gap(reason);
                    format!("event: gap\ndata: {{\"reason\":\"{reason}\"}}\n\n").into()
                }
                Item::Heartbeat => Bytes::from_static(b"event: heartbeat\ndata: {}\n\n"),
                Item::End(End::Draining { after }) => {
                    let ms = after.as_millis();
                    format!("retry: {ms}\nevent: reconnect\ndata: {{\"after_ms\":{ms}}}\n\n").into()
                }
                // With a new token, or after having been away, it is a new stream.
                Item::End(End::Expired | End::Slow) => return None,
            };
            Some(Ok(Frame::data(bytes)))
        })
    }
}

fn gap(reason: GapReason) -> &'static str {
    match reason {
        GapReason::UnknownEventId => "unknown_event_id",
        GapReason::Pruned => "pruned",
        GapReason::TooMany => "too_many",
    }
}
