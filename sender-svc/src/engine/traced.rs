//! The span of a call to a provider, where its broadcast is traced.

use std::time::SystemTime;

use bongsu_ops::trace::{Span, Traceparent, Work};

use super::Engine;
use super::held::HeldBatch;
use super::line::Line;
use crate::provider::Answer;

/// A call under way.
#[derive(Debug)]
pub(super) struct CallSpan {
    span: Span,
    /// What the provider is told of it.
    pub(super) header: Option<String>,
}

impl CallSpan {
    /// Of a call that begins now, for the span that asked for its broadcast.
    pub(super) fn begin(engine: &Engine, line: &Line, held: &HeldBatch, asked: &Traceparent) -> Self {
        let began = SystemTime::now();
        let mut span = engine.tracer.following("provider.call", Work::Call, Some(asked), began);
        span.set("bongsu.broadcast_id", held.work.id.0);
        span.set("bongsu.provider", line.name.clone());
        span.set("bongsu.batch_id", held.lease.id.0);
        span.set("bongsu.batch_size", i64::from(held.lease.size));
        span.set("bongsu.attempt", i64::from(held.lease.attempt));
        let header = span.traceparent().map(|own| own.to_string());
        Self { span, header }
    }

    /// What the provider said, as one of our words: its own may have a token in them.
    pub(super) fn end(mut self, answer: &Answer) {
        let word = answer.word();
        self.span.set("bongsu.answer", word);
        if !matches!(answer, Answer::Accepted) {
            self.span.failed(word);
        }
    }
}
