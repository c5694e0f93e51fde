//! The ways to misbehave, as flags at the start and as JSON while running.

use clap::builder::BoolishValueParser;
use serde::{Deserialize, Deserializer, Serialize};

/// A latency beyond this is a typing error; use `hang` for "never".
const MAX_LATENCY_MS: u64 = 3_600_000;

/// Calls one HTTP/2 connection carries at a time, at most and by default. What a caller has in flight beyond that needs
/// more connections.
pub(crate) const MAX_STREAMS: u32 = 250;

/// As long as Google's.
const FCM_TOKEN_LIFETIME_S: u32 = 3_599;

/// Connections open at a time, at most and by default.
pub(crate) const MAX_CONNECTIONS: u32 = 20_000;

/// Apple refuses a provider token that comes sooner than 20 minutes after another one.
const PROVIDER_TOKEN_INTERVAL_S: u32 = 1_200;

/// What a provider does with a push. Which rule wins when several apply is [`crate::decision::decide`]'s business:
/// hang, status, outage, dedupe, the token's prefix, transient, accepted.
#[derive(clap::Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[group(skip)]
#[serde(default)]
pub struct Behaviour {
    /// Mean time from having read a push to answering it, in milliseconds; 0 answers at once
    #[arg(long, env = "BONGSU_SIM_LATENCY_MS", value_name = "MS", default_value_t = 0)]
    pub latency_ms: u64,

    /// Spread of the latency in milliseconds: uniform in latency ± jitter; at most the latency
    #[arg(long, env = "BONGSU_SIM_JITTER_MS", value_name = "MS", default_value_t = 0)]
    pub jitter_ms: u64,

    /// Work pushes off one after the other, so many a second, as a provider does that has more than it can take; its answers
    /// come later and later. 0: all at the same time
    #[arg(long, env = "BONGSU_SIM_CAPACITY_PER_S", value_name = "N", default_value_t = 0)]
    pub capacity_per_s: u32,

    /// Share of calls answered 503, from 0 to 1; decided by seed, key and the how-manieth call of that key it is
    #[arg(long, env = "BONGSU_SIM_TRANSIENT", value_name = "SHARE", default_value_t = 0.0)]
    pub transient: f64,

    /// Seconds told in Retry-After with every 429 and 503 [default: 1 with a 429, no header with a 503]
    #[arg(long, env = "BONGSU_SIM_RETRY_AFTER_S", value_name = "S")]
    pub retry_after_s: Option<u32>,

    /// How many calls of each key are answered 429 where the token begins with `throttled-`
    #[arg(long, env = "BONGSU_SIM_THROTTLE_TIMES", value_name = "N", default_value_t = 1)]
    pub throttle_times: u16,

    /// Answer every push 503
    #[arg(long, env = "BONGSU_SIM_OUTAGE", value_parser = BoolishValueParser::new())]
    pub outage: bool,

    /// Start of an outage by the clock, in seconds since the simulator started
    #[arg(long, env = "BONGSU_SIM_OUTAGE_START_S", value_name = "S", default_value_t = 0.0)]
    pub outage_start_s: f64,

    /// Length of that outage in seconds; 0 means none
    #[arg(long, env = "BONGSU_SIM_OUTAGE_DURATION_S", value_name = "S", default_value_t = 0.0)]
    pub outage_duration_s: f64,

    /// Answer every push with this HTTP status, 200 to 599; a 2xx counts as accepted, a 3xx points back at /push
    #[arg(long, env = "BONGSU_SIM_STATUS", value_name = "STATUS")]
    pub status: Option<u16>,

    /// Read every push and never answer it
    #[arg(long, env = "BONGSU_SIM_HANG", value_parser = BoolishValueParser::new())]
    pub hang: bool,

    /// Tell a connection to go away after so many pushes, as providers do now and then: GOAWAY in HTTP/2, `Connection:
    /// close` in HTTP/1.1; what is under way is answered first. 0 never does
    #[arg(long, env = "BONGSU_SIM_GOAWAY_AFTER", value_name = "N", default_value_t = 0)]
    pub goaway_after: u32,

    /// Calls that one HTTP/2 connection carries at a time, 1 to 250, as told to connections that open from now on
    #[arg(long, env = "BONGSU_SIM_MAX_STREAMS", value_name = "N", default_value_t = MAX_STREAMS)]
    pub max_streams: u32,

    /// Connections open at a time, 1 to 20000, those that carry control included; a further one is accepted and closed at
    /// once without a word
    #[arg(long, env = "BONGSU_SIM_MAX_CONNECTIONS", value_name = "N", default_value_t = MAX_CONNECTIONS)]
    pub max_connections: u32,

    /// Honour the idempotency key: a push accepted before is answered 200 and not delivered again
    #[arg(long, env = "BONGSU_SIM_DEDUPE", value_parser = BoolishValueParser::new())]
    pub dedupe: bool,

    /// Speak no HTTP/2 over TLS, only HTTP/1.1
    #[arg(long, env = "BONGSU_SIM_HTTP1", value_parser = BoolishValueParser::new())]
    pub http1: bool,

    /// Skip the checks that take time: signatures are believed, and what is encrypted is not opened. For benchmarks; without
    /// it whatever the real provider would refuse is refused
    #[arg(long, env = "BONGSU_SIM_LENIENT", value_parser = BoolishValueParser::new())]
    pub lenient: bool,

    /// How long an access token of FCM's lives, in seconds
    #[arg(long, env = "BONGSU_SIM_FCM_TOKEN_LIFETIME_S", value_name = "S", default_value_t = FCM_TOKEN_LIFETIME_S)]
    pub fcm_token_lifetime_s: u32,

    /// Answer every request for an access token of FCM's with this HTTP status, 200 to 599
    #[arg(long, env = "BONGSU_SIM_FCM_TOKEN_STATUS", value_name = "STATUS")]
    pub fcm_token_status: Option<u16>,

    /// How long ago a device that is not registered was last known, in seconds, where the protocol tells (APNs)
    #[arg(long, env = "BONGSU_SIM_UNREGISTERED_AGO_S", value_name = "S", default_value_t = 0)]
    pub unregistered_ago_s: u32,

    /// A caller's own token may change every so many seconds (APNs)
    #[arg(long, env = "BONGSU_SIM_PROVIDER_TOKEN_INTERVAL_S", value_name = "S", default_value_t = PROVIDER_TOKEN_INTERVAL_S)]
    pub provider_token_interval_s: u32,

    /// How far the simulator's clock is ahead of the right time, in seconds, as far as tokens and their answers tell (FCM, APNs)
    #[arg(
        long,
        env = "BONGSU_SIM_CLOCK_AHEAD_S",
        value_name = "S",
        default_value_t = 0,
        allow_hyphen_values = true
    )]
    pub clock_ahead_s: i32,

    /// What the transient answers and the jitter are drawn from: same seed, same calls, same decisions
    #[arg(long, env = "BONGSU_SIM_SEED", value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            latency_ms: 0,
            jitter_ms: 0,
            capacity_per_s: 0,
            transient: 0.0,
            retry_after_s: None,
            throttle_times: 1,
            outage: false,
            outage_start_s: 0.0,
            outage_duration_s: 0.0,
            status: None,
            hang: false,
            goaway_after: 0,
            max_streams: MAX_STREAMS,
            max_connections: MAX_CONNECTIONS,
            dedupe: false,
            http1: false,
            lenient: false,
            fcm_token_lifetime_s: FCM_TOKEN_LIFETIME_S,
            fcm_token_status: None,
            unregistered_ago_s: 0,
            provider_token_interval_s: PROVIDER_TOKEN_INTERVAL_S,
            clock_ahead_s: 0,
            seed: 0,
        }
    }
}

/// Any subset of the fields of [`Behaviour`]; what is absent stays as it is. `Some(None)` (JSON `null`) clears
/// `retry_after_s`, `status` and `fcm_token_status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BehaviourPatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_per_s: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transient: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "null_is_a_value")]
    pub retry_after_s: Option<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle_times: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_start_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_duration_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "null_is_a_value")]
    pub status: Option<Option<u16>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hang: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goaway_after: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_streams: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedupe: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http1: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lenient: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fcm_token_lifetime_s: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "null_is_a_value")]
    pub fcm_token_status: Option<Option<u16>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unregistered_ago_s: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_token_interval_s: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_ahead_s: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum InvalidBehaviour {
    #[error("transient is {0}; it is a share of calls, from 0 to 1")]
    Transient(f64),
    #[error("latency_ms is {0}; at most {MAX_LATENCY_MS} – use hang for a provider that never answers")]
    Latency(u64),
    #[error(
        "jitter_ms is {jitter_ms}, more than latency_ms, {latency_ms}: an answer cannot come before the call"
    )]
    Jitter { jitter_ms: u64, latency_ms: u64 },
    #[error("{field} is {status}; a final HTTP status is from 200 to 599")]
    Status { field: &'static str, status: u16 },
    #[error("max_streams is {0}; a connection carries 1 to {MAX_STREAMS} calls at a time")]
    Streams(u32),
    #[error("max_connections is {0}; 1 to {MAX_CONNECTIONS} connections are open at a time")]
    Connections(u32),
    #[error("{field} is {value}; it is a number of seconds, 0 or more")]
    Seconds { field: &'static str, value: f64 },
}

impl Behaviour {
    /// What must hold before a behaviour takes effect, at the start as well as by `PATCH`.
    pub fn check(&self) -> Result<(), InvalidBehaviour> {
        if !(0.0..=1.0).contains(&self.transient) {
            return Err(InvalidBehaviour::Transient(self.transient));
        }
        if self.latency_ms > MAX_LATENCY_MS {
            return Err(InvalidBehaviour::Latency(self.latency_ms));
        }
        if self.jitter_ms > self.latency_ms {
            return Err(InvalidBehaviour::Jitter { jitter_ms: self.jitter_ms, latency_ms: self.latency_ms });
        }
        for (field, status) in [("status", self.status), ("fcm_token_status", self.fcm_token_status)] {
            if let Some(status) = status.filter(|status| !(200..=599).contains(status)) {
                return Err(InvalidBehaviour::Status { field, status });
            }
        }
        if !(1..=MAX_STREAMS).contains(&self.max_streams) {
            return Err(InvalidBehaviour::Streams(self.max_streams));
        }
        if !(1..=MAX_CONNECTIONS).contains(&self.max_connections) {
            return Err(InvalidBehaviour::Connections(self.max_connections));
        }
        for (field, value) in
            [("outage_start_s", self.outage_start_s), ("outage_duration_s", self.outage_duration_s)]
        {
            if !value.is_finite() || value < 0.0 {
                return Err(InvalidBehaviour::Seconds { field, value });
            }
        }
        Ok(())
    }

    /// This behaviour with the fields of `patch` in place of its own.
    pub fn patched(&self, patch: &BehaviourPatch) -> Self {
        Self {
            latency_ms: patch.latency_ms.unwrap_or(self.latency_ms),
            jitter_ms: patch.jitter_ms.unwrap_or(self.jitter_ms),
            capacity_per_s: patch.capacity_per_s.unwrap_or(self.capacity_per_s),
            transient: patch.transient.unwrap_or(self.transient),
            retry_after_s: patch.retry_after_s.unwrap_or(self.retry_after_s),
            throttle_times: patch.throttle_times.unwrap_or(self.throttle_times),
            outage: patch.outage.unwrap_or(self.outage),
            outage_start_s: patch.outage_start_s.unwrap_or(self.outage_start_s),
            outage_duration_s: patch.outage_duration_s.unwrap_or(self.outage_duration_s),
            status: patch.status.unwrap_or(self.status),
            hang: patch.hang.unwrap_or(self.hang),
            goaway_after: patch.goaway_after.unwrap_or(self.goaway_after),
            max_streams: patch.max_streams.unwrap_or(self.max_streams),
            max_connections: patch.max_connections.unwrap_or(self.max_connections),
            dedupe: patch.dedupe.unwrap_or(self.dedupe),
            http1: patch.http1.unwrap_or(self.http1),
            lenient: patch.lenient.unwrap_or(self.lenient),
            fcm_token_lifetime_s: patch.fcm_token_lifetime_s.unwrap_or(self.fcm_token_lifetime_s),
            fcm_token_status: patch.fcm_token_status.unwrap_or(self.fcm_token_status),
            unregistered_ago_s: patch.unregistered_ago_s.unwrap_or(self.unregistered_ago_s),
            provider_token_interval_s: patch
                .provider_token_interval_s
                .unwrap_or(self.provider_token_interval_s),
            clock_ahead_s: patch.clock_ahead_s.unwrap_or(self.clock_ahead_s),
            seed: patch.seed.unwrap_or(self.seed),
        }
    }
}

/// Called only where the field is present, so that `null` becomes `Some(None)` instead of "absent".
fn null_is_a_value<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    value: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(value).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_clears_an_optional_field_and_absence_leaves_it() {
        let before = Behaviour { status: Some(401), retry_after_s: Some(5), ..Behaviour::default() };
        let patch: BehaviourPatch = serde_json::from_str(r#"{"status":null}"#).expect("a patch");
        let after = before.patched(&patch);
        assert_eq!((after.status, after.retry_after_s), (None, Some(5)));
        assert_eq!(serde_json::to_string(&patch).expect("JSON"), r#"{"status":null}"#);
    }

    #[test]
    fn impossible_values_are_refused_by_name() {
        let good = Behaviour::default();
        for (bad, named) in [
            (Behaviour { transient: 1.5, ..good }, "transient"),
            (Behaviour { transient: f64::NAN, ..good }, "transient"),
            (Behaviour { latency_ms: MAX_LATENCY_MS + 1, ..good }, "latency_ms"),
            (Behaviour { jitter_ms: 1, ..good }, "jitter_ms"),
            (Behaviour { status: Some(101), ..good }, "status"),
            (Behaviour { fcm_token_status: Some(600), ..good }, "fcm_token_status"),
            (Behaviour { max_streams: 0, ..good }, "max_streams"),
            (Behaviour { max_streams: MAX_STREAMS + 1, ..good }, "max_streams"),
            (Behaviour { max_connections: 0, ..good }, "max_connections"),
            (Behaviour { max_connections: MAX_CONNECTIONS + 1, ..good }, "max_connections"),
            (Behaviour { outage_start_s: -1.0, ..good }, "outage_start_s"),
            (Behaviour { outage_duration_s: f64::INFINITY, ..good }, "outage_duration_s"),
        ] {
            let refusal = bad.check().expect_err(named).to_string();
            assert!(refusal.starts_with(named), "{refusal}");
        }
        assert_eq!(good.check(), Ok(()));
    }
}
