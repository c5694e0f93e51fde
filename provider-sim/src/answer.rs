//! Answers and their bodies.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::sim::Sim;

pub(crate) type Answer = Response<Body>;

/// Records looked at per turn of a listing: how long pushes wait for the lock because of it.
const RECORDS_PER_PAGE: usize = 1_024;

pub(crate) fn json_text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    answer(status, HeaderValue::from_static("application/json"), Body::Whole(text.into()))
}

pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(text) => json_text(status, text),
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal", &error.to_string()),
    }
}

/// `error` is for programs, `detail` says to a person what is wrong and what would be right.
pub(crate) fn refusal(status: StatusCode, error: &str, detail: &str) -> Answer {
    json_text(status, serde_json::json!({ "error": error, "detail": detail }).to_string())
}

pub(crate) fn json_lines(lines: DeliveryLines) -> Answer {
    answer(StatusCode::OK, HeaderValue::from_static("application/x-ndjson"), Body::Lines(lines))
}

pub(crate) fn pem(text: String) -> Answer {
    let content_type = HeaderValue::from_static("application/x-pem-file");
    answer(StatusCode::OK, content_type, Body::Whole(text.into()))
}

fn answer(status: StatusCode, content_type: HeaderValue, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

pub(crate) enum Body {
    Whole(Bytes),
    Lines(DeliveryLines),
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let part = match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => None,
            Self::Whole(bytes) => Some(Ok(std::mem::take(bytes))),
            Self::Lines(lines) => lines.next_page(),
        };
        Poll::Ready(part.map(|part| part.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Lines(lines) => lines.next == lines.end,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Lines(_) => SizeHint::default(),
        }
    }
}

/// The keys known when it was asked for, one JSON object per line. Made page by page as the reader takes them: a million
/// of them are never in memory as text, and pushes go on in between. The counts in a line are those of its page's moment.
pub(crate) struct DeliveryLines {
    sim: Arc<Sim>,
    only_duplicates: bool,
    next: usize,
    end: usize,
    resets: u64,
}

impl DeliveryLines {
    pub fn new(sim: Arc<Sim>, only_duplicates: bool) -> Self {
        let (end, resets) = {
            let state = sim.lock();
            (state.ledger.keys(), state.ledger.resets())
        };
        Self { sim, only_duplicates, next: 0, end, resets }
    }

    /// None at the end. A page is never empty, because an empty chunk would end an HTTP/1.1 body.
    fn next_page(&mut self) -> Option<io::Result<Bytes>> {
        let mut page = Vec::new();
        while page.is_empty() && self.next < self.end {
            let range = self.next..self.end.min(self.next + RECORDS_PER_PAGE);
            self.next = range.end;
            let state = self.sim.lock();
            if state.ledger.resets() != self.resets {
                self.next = self.end;
                // Breaks the body off, so that half a list is not taken for a whole one.
                return Some(Err(io::Error::other("the simulator was reset while its deliveries were read")));
            }
            for record in state.ledger.deliveries(range) {
                if self.only_duplicates && record.accepted < 2 {
                    continue;
                }
                if let Err(error) = serde_json::to_writer(&mut page, &record) {
                    return Some(Err(error.into()));
                }
                page.push(b'\n');
            }
        }
        if page.is_empty() { None } else { Some(Ok(page.into())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Behaviour;

    #[test]
    fn a_listing_breaks_off_when_the_counts_are_reset_under_it() {
        let sim = Arc::new(Sim::new(Behaviour::default(), None).expect("a simulator"));
        let count = |key: &str| {
            let mut state = sim.lock();
            state.ledger.count(&Behaviour::default(), key, "token", std::time::Duration::ZERO).expect("room");
        };
        (0..=RECORDS_PER_PAGE).for_each(|n| count(&n.to_string()));
        let mut lines = DeliveryLines::new(Arc::clone(&sim), false);
        assert!(matches!(lines.next_page(), Some(Ok(_))));
        sim.lock().ledger.reset();
        count("another");
        assert!(matches!(lines.next_page(), Some(Err(_))));
        assert!(lines.next_page().is_none());
    }
}
