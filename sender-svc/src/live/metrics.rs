//! Metrics of the live channel.

use std::time::Duration;

use bongsu_ops::metric::Metric;
use metrics::{counter, gauge, histogram};

pub const METRICS: [Metric; 6] = [
    Metric::gauge("bongsu_live_connections", &["transport"], "Streams open here: sse, grpc"),
    Metric::counter(
        "bongsu_live_connects_total",
        &["outcome"],
        "Streams asked for: opened, full (this process is), user_full (too many of one user), draining",
    ),
    Metric::counter("bongsu_live_events_sent_total", &[], "Events handed to streams"),
    Metric::counter(
        "bongsu_live_disconnects_total",
        &["reason"],
        "Streams that ended: client (it left, or its connection broke), slow, expired (its token), draining",
    ),
    Metric::counter(
        "bongsu_live_acknowledgements_total",
        &[],
        "Events of which a client said here, as the first one, that it has them",
    ),
    Metric::seconds(
        "bongsu_live_lag_seconds",
        &[],
        "From hearing that a user has something new until it was handed to their streams",
    ),
];

/// How a stream is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Sse,
    Grpc,
}

impl Transport {
    fn label(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::Grpc => "grpc",
        }
    }
}

/// What became of asking for a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Opened(Transport),
    Full,
    UserFull,
    Draining,
}

/// Why a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Client,
    Slow,
    Expired,
    Draining,
}

pub fn connect(outcome: Outcome) {
    let label = match outcome {
        Outcome::Opened(transport) => {
            gauge!("bongsu_live_connections", "transport" => transport.label()).increment(1.0);
            "opened"
        }
        Outcome::Full => "full",
        Outcome::UserFull => "user_full",
        Outcome::Draining => "draining",
    };
    counter!("bongsu_live_connects_total", "outcome" => label).increment(1);
}

pub fn disconnect(transport: Transport, ended: Ended) {
    gauge!("bongsu_live_connections", "transport" => transport.label()).decrement(1.0);
    let label = match ended {
        Ended::Client => "client",
        Ended::Slow => "slow",
        Ended::Expired => "expired",
        Ended::Draining => "draining",
    };
    counter!("bongsu_live_disconnects_total", "reason" => label).increment(1);
}

pub fn handed(events: u64) {
    counter!("bongsu_live_events_sent_total").increment(events);
}

pub fn lag(lag: Duration) {
    histogram!("bongsu_live_lag_seconds").record(lag.as_secs_f64());
}

pub fn acknowledged(new: usize) {
    counter!("bongsu_live_acknowledgements_total").increment(new as u64);
}
