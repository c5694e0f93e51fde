//! Names of the sender's metrics, and the only place that writes them. Label values come from enums, configured names and
//! the list here, never from ids or tokens.

use std::sync::Arc;
use std::time::Duration;

use bongsu_ops::api::Meter;
use bongsu_ops::metric::{self, Metric};
use bongsu_store::{DeadReason, Flushed, LeasedBatch};
use metrics::{Counter, Histogram, counter, gauge, histogram};
use tonic::Code;

use crate::engine::line::Line;
use crate::provider::Answer;

/// Calls of the API that are counted: path and label.
const METHODS: [(&str, &str); 11] = [
    ("/bongsu.v1.DeliveryService/StreamStatus", "StreamStatus"),
    ("/bongsu.v1.DeliveryService/GetStatus", "GetStatus"),
    ("/bongsu.v1.DeliveryService/ListDeliveries", "ListDeliveries"),
    ("/bongsu.v1.DeliveryService/ExplainDelivery", "ExplainDelivery"),
    ("/bongsu.v1.DeliveryService/ListSenders", "ListSenders"),
    ("/bongsu.v1.DeliveryService/ListDeadLetters", "ListDeadLetters"),
    ("/bongsu.v1.DeliveryService/ReplayDeadLetters", "ReplayDeadLetters"),
    ("/bongsu.v1.DeliveryService/PurgeDeadLetters", "PurgeDeadLetters"),
    ("/bongsu.v1.ProviderService/ListProviders", "ListProviders"),
    ("/bongsu.v1.ProviderService/UnparkProvider", "UnparkProvider"),
    ("/bongsu.v1.ProviderService/ParkProvider", "ParkProvider"),
];

/// How calls of the API are measured.
pub const METER: Meter = Meter { label: method, record: api_call };

fn method(path: &str) -> Option<&'static str> {
    METHODS.iter().find(|(known, _)| *known == path).map(|(_, label)| *label)
}

fn api_call(method: &'static str, code: Code, took: Duration) {
    // The code's name is one of seventeen.
    counter!("bongsu_sender_api_calls_total", "method" => method, "code" => format!("{code:?}")).increment(1);
    histogram!("bongsu_sender_api_call_seconds", "method" => method).record(took.as_secs_f64());
}

/// All that a sender counts by itself; what it asks the database is in [`crate::gauges`]. docs/metrics.md is checked against
/// both.
pub const METRICS: [Metric; 27] = [
    Metric::counter(
        "bongsu_sender_api_calls_total",
        &["method", "code"],
        "Calls of the API ended, by method and gRPC code",
    ),
    Metric::seconds(
        "bongsu_sender_api_call_seconds",
        &["method"],
        "From a call's arrival to its answer, by method",
    ),
    Metric::counter(
        "bongsu_sender_calls_total",
        &["provider", "answer"],
        "Calls to providers, by what the answer meant: accepted, gone, rejected, suspect, slow_down, trouble",
    ),
    Metric::seconds("bongsu_sender_call_seconds", &["provider"], "The time a provider took to answer"),
    Metric::seconds("bongsu_sender_claim_seconds", &[], "The time a claim took"),
    Metric::counter("bongsu_sender_batches_claimed_total", &[], "Batches leased"),
    Metric::counter(
        "bongsu_sender_batches_reclaimed_total",
        &[],
        "Of those, batches whose lease ran out in other hands",
    ),
    Metric::seconds("bongsu_sender_read_seconds", &[], "The time it took to read what a claim brought"),
    Metric::seconds("bongsu_sender_flush_seconds", &[], "The time a flush took"),
    Metric::gauge(
        "bongsu_sender_flush_lag_seconds",
        &[],
        "For how long the oldest outcomes have been waiting to be recorded: grows while the database does not take them",
    ),
    Metric::counter("bongsu_sender_outcomes_recorded_total", &[], "Outcomes that counted"),
    Metric::counter(
        "bongsu_sender_outcomes_fenced_total",
        &[],
        "Outcomes dropped because another sender holds the batch",
    ),
    Metric::counter(
        "bongsu_sender_outcomes_stale_total",
        &[],
        "Outcomes dropped because the delivery had moved on",
    ),
    Metric::counter(
        "bongsu_sender_dead_letters_total",
        &["provider", "reason"],
        "Deliveries that became dead letters: attempts_exhausted, unregistered, rejected",
    ),
    Metric::counter(
        "bongsu_sender_batches_lost_total",
        &[],
        "Batches that another sender took from this one",
    ),
    Metric::counter("bongsu_sender_batches_revoked_total", &[], "Batches freed from senders that died"),
    Metric::gauge(
        "bongsu_sender_calls_unrecorded",
        &[],
        "Calls started whose outcome is not recorded: what a crash may repeat",
    ),
    Metric::gauge("bongsu_sender_calls_in_flight", &["provider"], "Calls under way, by provider"),
    Metric::gauge(
        "bongsu_sender_calls_allowed",
        &["provider"],
        "Calls that may be under way: fewer than configured after a beginning, and while the provider is slow",
    ),
    Metric::gauge(
        "bongsu_sender_deliveries_queued",
        &["provider"],
        "Deliveries waiting here for a call, by provider",
    ),
    Metric::gauge(
        "bongsu_sender_provider_parked",
        &["provider"],
        "1 while this sender makes only probes to the provider, because it fails as a whole",
    ),
    Metric::counter(
        "bongsu_sender_probes_total",
        &["provider", "outcome"],
        "Probes of parked providers made here, by whether they were answered: works, fails",
    ),
    Metric::counter(
        "bongsu_sender_pace_slots_total",
        &["provider", "slots"],
        "Moments to call a provider with a rate limit at: reserved, used, forfeited",
    ),
    Metric::counter(
        "bongsu_sender_broadcast_pace_slots_total",
        &["slots"],
        "Moments to call in of broadcasts with a rate of their own, all together: reserved, used, forfeited",
    ),
    Metric::counter(
        "bongsu_sender_slow_rounds_total",
        &["provider"],
        "Rounds of the slow tier that began here, by provider",
    ),
    Metric::counter(
        "bongsu_sender_live_first_total",
        &["decision"],
        "What was decided of pushes that go out live first: seen (a client acknowledged it: not called), waits (the user is connected), \
         called",
    ),
    Metric::gauge("bongsu_sender_status_streams", &[], "Status streams served"),
];

/// Says what each metric means.
pub fn describe() {
    metric::describe(&METRICS);
    metric::describe(&crate::live::METRICS);
    metric::describe(&bongsu_live::METRICS);
}

/// Counts the calls to one provider. Looked up once: by name, each call would cost more than all else here.
pub struct CallMeter {
    accepted: Counter,
    gone: Counter,
    rejected: Counter,
    suspect: Counter,
    slow_down: Counter,
    trouble: Counter,
    seconds: Histogram,
}

impl CallMeter {
    pub fn new(provider: &str) -> Self {
        let counter = |answer: &'static str| counter!("bongsu_sender_calls_total", "provider" => provider.to_owned(), "answer" => answer);
        Self {
            accepted: counter("accepted"),
            gone: counter("gone"),
            rejected: counter("rejected"),
            suspect: counter("suspect"),
            slow_down: counter("slow_down"),
            trouble: counter("trouble"),
            seconds: histogram!("bongsu_sender_call_seconds", "provider" => provider.to_owned()),
        }
    }

    /// A call was answered, or given up.
    pub fn called(&self, answer: &Answer, took: Duration) {
        let counter = match answer {
            Answer::Accepted => &self.accepted,
            Answer::Gone { .. } => &self.gone,
            Answer::Rejected(_) => &self.rejected,
            Answer::Suspect(_) => &self.suspect,
            Answer::SlowDown { .. } => &self.slow_down,
            Answer::Trouble { .. } => &self.trouble,
        };
        counter.increment(1);
        self.seconds.record(took.as_secs_f64());
    }
}

impl std::fmt::Debug for CallMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallMeter").finish_non_exhaustive()
    }
}

/// Counts the slots of a provider with a rate limit, or of broadcasts.
pub struct PaceMeter {
    pub reserved: Counter,
    pub used: Counter,
    pub forfeited: Counter,
}

impl PaceMeter {
    pub fn new(provider: &str) -> Self {
        let counter = |what: &'static str| counter!("bongsu_sender_pace_slots_total", "provider" => provider.to_owned(), "slots" => what);
        Self { reserved: counter("reserved"), used: counter("used"), forfeited: counter("forfeited") }
    }

    /// Those of broadcasts with a rate of their own, all together.
    pub fn of_broadcasts() -> Self {
        let counter =
            |what: &'static str| counter!("bongsu_sender_broadcast_pace_slots_total", "slots" => what);
        Self { reserved: counter("reserved"), used: counter("used"), forfeited: counter("forfeited") }
    }
}

impl std::fmt::Debug for PaceMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PaceMeter").finish_non_exhaustive()
    }
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

pub fn flushed(took: Duration, flushed: &Flushed, lines: &[Arc<Line>]) {
    for ((provider, reason), dead) in &flushed.dead {
        let line = lines.iter().find(|line| line.provider == *provider);
        let provider = line.map(|line| line.name.clone()).unwrap_or_default();
        counter!("bongsu_sender_dead_letters_total", "provider" => provider, "reason" => dead_reason(*reason))
            .increment(*dead);
    }
    histogram!("bongsu_sender_flush_seconds").record(took.as_secs_f64());
    counter!("bongsu_sender_outcomes_recorded_total").increment(flushed.recorded as u64);
    counter!("bongsu_sender_outcomes_fenced_total").increment(flushed.fenced as u64);
    counter!("bongsu_sender_outcomes_stale_total").increment(flushed.stale as u64);
}

fn dead_reason(reason: DeadReason) -> &'static str {
    match reason {
        DeadReason::AttemptsExhausted => "attempts_exhausted",
        DeadReason::Unregistered => "unregistered",
        DeadReason::Rejected => "rejected",
        DeadReason::Unconfirmed => "unconfirmed",
    }
}

/// Batches that another sender took from this one.
pub fn lost(batches: usize) {
    counter!("bongsu_sender_batches_lost_total").increment(batches as u64);
}

/// Batches freed from senders that died.
pub fn revoked(batches: usize) {
    counter!("bongsu_sender_batches_revoked_total").increment(batches as u64);
}

pub fn holding(lines: &[Arc<Line>], unrecorded: usize, flush_lag: Duration) {
    gauge!("bongsu_sender_flush_lag_seconds").set(flush_lag.as_secs_f64());
    gauge!("bongsu_sender_calls_unrecorded").set(unrecorded as f64);
    for line in lines {
        gauge!("bongsu_sender_calls_in_flight", "provider" => line.name.clone()).set(line.in_flight() as f64);
        gauge!("bongsu_sender_calls_allowed", "provider" => line.name.clone()).set(line.allowed() as f64);
        gauge!("bongsu_sender_provider_parked", "provider" => line.name.clone())
            .set(f64::from(u8::from(line.breaker.is_parked())));
        gauge!("bongsu_sender_deliveries_queued", "provider" => line.name.clone())
            .set(line.queue.len() as f64);
    }
}

/// A probe was answered, or not.
pub fn probe(provider: &str, works: bool) {
    let outcome = if works { "works" } else { "fails" };
    counter!("bongsu_sender_probes_total", "provider" => provider.to_string(), "outcome" => outcome)
        .increment(1);
}

/// Of pushes that go out live first, so many were seen, so many wait, and the others are called.
pub fn live_first(seen: usize, waits: usize, called: usize) {
    for (decision, n) in [("seen", seen), ("waits", waits), ("called", called)] {
        if n > 0 {
            counter!("bongsu_sender_live_first_total", "decision" => decision).increment(n as u64);
        }
    }
}

/// Rounds of the slow tier were made.
pub fn slow_rounds(provider: &str, rounds: usize) {
    counter!("bongsu_sender_slow_rounds_total", "provider" => provider.to_string()).increment(rounds as u64);
}

pub fn watchers(count: usize) {
    gauge!("bongsu_sender_status_streams").set(count as f64);
}
