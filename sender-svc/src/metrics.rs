//! Names of the sender's metrics, and the only place that writes them. Label values come from enums, configured names and
//! the list here, never from ids or tokens.

use std::sync::Arc;
use std::time::Duration;

use bongsu_ops::api::Meter;
use bongsu_store::{Flushed, LeasedBatch};
use metrics::{
    Counter, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
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

/// Says what each metric means.
pub fn describe() {
    describe_counter!("bongsu_sender_api_calls_total", "Calls of the API ended, by method and gRPC code");
    describe_histogram!(
        "bongsu_sender_api_call_seconds",
        Unit::Seconds,
        "From a call's arrival to its answer, by method"
    );
    describe_counter!("bongsu_sender_calls_total", "Calls to providers, by what the answer meant");
    describe_histogram!("bongsu_sender_call_seconds", Unit::Seconds, "The time a provider took to answer");
    describe_histogram!("bongsu_sender_claim_seconds", Unit::Seconds, "The time a claim took");
    describe_counter!("bongsu_sender_batches_claimed_total", "Batches leased");
    describe_counter!(
        "bongsu_sender_batches_reclaimed_total",
        "Of those, batches whose lease ran out in other hands"
    );
    describe_histogram!(
        "bongsu_sender_read_seconds",
        Unit::Seconds,
        "The time it took to read what a claim brought"
    );
    describe_histogram!("bongsu_sender_flush_seconds", Unit::Seconds, "The time a flush took");
    describe_counter!("bongsu_sender_outcomes_recorded_total", "Outcomes that counted");
    describe_counter!(
        "bongsu_sender_outcomes_fenced_total",
        "Outcomes dropped because another sender holds the batch"
    );
    describe_counter!(
        "bongsu_sender_outcomes_stale_total",
        "Outcomes dropped because the delivery had moved on"
    );
    describe_counter!("bongsu_sender_batches_lost_total", "Batches that another sender took from this one");
    describe_counter!("bongsu_sender_batches_revoked_total", "Batches freed from senders that died");
    describe_gauge!(
        "bongsu_sender_calls_unrecorded",
        "Calls started whose outcome is not recorded: what a crash may repeat"
    );
    describe_gauge!("bongsu_sender_calls_in_flight", "Calls under way, by provider");
    describe_gauge!("bongsu_sender_deliveries_queued", "Deliveries waiting here for a call, by provider");
    describe_gauge!(
        "bongsu_sender_provider_parked",
        "1 while the provider fails as a whole and only probes are made, by provider"
    );
    describe_counter!(
        "bongsu_sender_probes_total",
        "Probes of parked providers made here, by whether they were answered"
    );
    describe_counter!(
        "bongsu_sender_pace_slots_total",
        "Moments to call a provider with a rate limit at, by whether they were reserved, used, or let pass"
    );
    describe_counter!(
        "bongsu_sender_slow_rounds_total",
        "Rounds of the slow tier that began here, by provider"
    );
    describe_gauge!("bongsu_sender_status_streams", "Status streams served");
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

/// Rounds of the slow tier were made.
pub fn slow_rounds(provider: &str, rounds: usize) {
    counter!("bongsu_sender_slow_rounds_total", "provider" => provider.to_string()).increment(rounds as u64);
}

pub fn watchers(count: usize) {
    gauge!("bongsu_sender_status_streams").set(count as f64);
}
