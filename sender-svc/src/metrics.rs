//! The metrics of a sender: names and labels, all in this file. Labels come from enums and configured names, never from
//! ids or tokens.

use std::sync::Arc;
use std::time::Duration;

use bongsu_store::{Flushed, LeasedBatch};
use metrics::{counter, gauge, histogram};

use crate::engine::line::Line;
use crate::provider::Answer;

/// A call was answered, or given up.
pub fn called(provider: &str, answer: &Answer, took: Duration) {
    let meaning = match answer {
        Answer::Accepted => "accepted",
        Answer::Gone(_) => "gone",
        Answer::Rejected(_) => "rejected",
        Answer::SlowDown { .. } => "slow_down",
        Answer::Trouble { .. } => "trouble",
    };
    let provider = provider.to_string();
    counter!("bongsu_sender_calls_total", "provider" => provider.clone(), "answer" => meaning).increment(1);
    histogram!("bongsu_sender_call_seconds", "provider" => provider).record(took.as_secs_f64());
}

pub fn claimed(took: Duration, batches: &[LeasedBatch]) {
    histogram!("bongsu_sender_claim_seconds").record(took.as_secs_f64());
    counter!("bongsu_sender_batches_claimed_total").increment(batches.len() as u64);
    let reclaimed = batches.iter().filter(|b| b.reclaims > 0).count();
    counter!("bongsu_sender_batches_reclaimed_total").increment(reclaimed as u64);
}

pub fn read(took: Duration) {
    histogram!("bongsu_sender_read_seconds").record(took.as_secs_f64());
}

pub fn flushed(took: Duration, flushed: &Flushed) {
    histogram!("bongsu_sender_flush_seconds").record(took.as_secs_f64());
    counter!("bongsu_sender_outcomes_recorded_total").increment(flushed.recorded as u64);
    counter!("bongsu_sender_outcomes_fenced_total").increment(flushed.fenced as u64);
    counter!("bongsu_sender_outcomes_stale_total").increment(flushed.stale as u64);
}

/// Batches that another sender took from this one.
pub fn lost(batches: usize) {
    counter!("bongsu_sender_batches_lost_total").increment(batches as u64);
}

/// Batches freed from senders that died.
pub fn revoked(batches: usize) {
    counter!("bongsu_sender_batches_revoked_total").increment(batches as u64);
}

pub fn holding(lines: &[Arc<Line>], unrecorded: usize) {
    gauge!("bongsu_sender_calls_unrecorded").set(unrecorded as f64);
    for line in lines {
        gauge!("bongsu_sender_calls_in_flight", "provider" => line.name.clone()).set(line.in_flight() as f64);
        gauge!("bongsu_sender_deliveries_queued", "provider" => line.name.clone())
            .set(line.queue.len() as f64);
    }
}

pub fn watchers(count: usize) {
    gauge!("bongsu_sender_status_streams").set(count as f64);
}
