//! What the simulator tells: the JSON of `/stats` and `/deliveries`, also for those who read it.

use serde::{Deserialize, Serialize};

/// The counts since the start or the last reset.
///
/// `calls` is the sum of accepted, duplicates, suppressed, transient, unregistered, failing, rejected, mismatched,
/// throttled, outage, overridden and hung.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Pushes read whole and decided.
    pub calls: u64,
    /// Calls answered 2xx that were the first of their key: deliveries made.
    pub accepted: u64,
    /// Calls answered 2xx although their key had been accepted before: deliveries made again.
    pub duplicates: u64,
    /// The same with `dedupe` on: answered, not delivered again.
    pub suppressed: u64,
    /// Calls answered 503 by the transient share.
    pub transient: u64,
    /// Calls answered 410.
    pub unregistered: u64,
    /// Calls answered 503 because of a token that always fails.
    pub failing: u64,
    /// Calls answered 400 because of their token.
    pub rejected: u64,
    /// Calls answered that the token is not for who sends.
    pub mismatched: u64,
    /// Calls answered 429.
    pub throttled: u64,
    /// Calls answered 503 because of an outage.
    pub outage: u64,
    /// Calls answered with the configured status, where that is no 2xx.
    pub overridden: u64,
    /// Calls that will never be answered.
    pub hung: u64,
    /// Requests that were no push (not JSON, no token, too large, not believed) or found no room; not among the calls.
    pub refused: u64,
    /// Access tokens of FCM's that were asked for, given or not; not among the calls.
    pub fcm_tokens: u64,
    /// Calls read and not yet answered, now. One whose caller went away is open no longer.
    pub open: u64,
    /// The most there were.
    pub max_open: u64,
    /// Keys that got a transient 503 and were accepted later.
    pub transient_recovered: u64,
    /// Connections open now, this one included.
    pub connections: u64,
    /// Connections ever opened; after a reset, those open then and the later ones.
    pub connections_total: u64,
    /// Connections closed at once, because as many as `max_connections` were open; not among the other two.
    pub refused_connections: u64,
    /// When the first delivery was accepted, in milliseconds since 1970.
    pub first_accepted_unix_ms: Option<u64>,
    /// When the latest delivery was accepted, in milliseconds since 1970.
    pub last_accepted_unix_ms: Option<u64>,
    /// Set by `POST /mark`.
    pub mark: Option<Mark>,
}

/// A moment to measure from: "the sender was killed here". The stall is from `last_accepted_before_unix_ms` to
/// `first_accepted_after_unix_ms`. As in [`Stats::accepted`], duplicates are no acceptances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    pub at_unix_ms: u64,
    pub last_accepted_before_unix_ms: Option<u64>,
    /// None until something was accepted after the mark.
    pub first_accepted_after_unix_ms: Option<u64>,
    pub accepted_at_mark: u64,
    pub open_at_mark: u64,
}

/// What became of one key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeliveryRecord {
    /// The idempotency key, or `<to>/<broadcast_id>` where the caller gave none.
    pub key: String,
    pub calls: u32,
    /// How often it was accepted, suppressed calls not counted: 2 or more is a duplicate.
    pub accepted: u32,
    /// How many transient 503 it got.
    pub transient: u32,
    /// When it was first accepted, in microseconds since 1970.
    pub first_accepted_unix_us: Option<u64>,
}
