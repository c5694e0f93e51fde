//! What a provider of any kind is told: its limits, its retries, and when it is found to fail.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::{invalidation, slow_tier};
use crate::engine::doubt::MassInvalidation;
use crate::engine::judge::RetrySchedule;
use crate::engine::slow_tier::SlowTier;

/// What every kind of provider may be told.
pub(super) const NAMES: [&str; 7] = [
    "rate_per_second",
    "in_flight",
    "call_timeout_ms",
    "never_park",
    "mass_invalidation",
    "retry",
    "slow_tier",
];

/// Calls within a second that a rate may allow.
const MOST_PER_SECOND: u32 = 1_000_000;

/// What all are told.
#[derive(Debug, Clone, PartialEq)]
pub struct Common {
    /// Calls within any second at most, by all senders together.
    pub rate_per_second: Option<u32>,
    /// Calls under way at most.
    pub in_flight: u32,
    pub call_timeout: Duration,
    /// Whether it is never found to fail as a whole.
    pub never_park: bool,
    /// When it is not believed that tokens are gone; None: it always is.
    pub mass_invalidation: Option<MassInvalidation>,
    pub schedule: RetrySchedule,
    /// When what used up its attempts is replayed by itself; None: never.
    pub slow_tier: Option<SlowTier>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Table {
    rate_per_second: Option<u32>,
    in_flight: Option<u32>,
    call_timeout_ms: Option<u64>,
    pub never_park: Option<bool>,
    mass_invalidation: Option<toml::Value>,
    retry: Retry,
    slow_tier: Option<toml::Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Retry {
    initial_ms: Option<u64>,
    factor: Option<f64>,
    max_attempts: Option<u32>,
    floor_ms: Option<u64>,
}

/// What a table comes to: what it does not say is as in `defaults`, and no delay shorter than what its kind asks for, `floor`.
pub(super) fn of(table: Table, defaults: &Common, floor: Duration) -> anyhow::Result<Common> {
    let Table {
        rate_per_second,
        in_flight,
        call_timeout_ms,
        never_park,
        mass_invalidation,
        retry,
        slow_tier,
    } = table;
    let millis = |given: Option<u64>, default| given.map_or(default, Duration::from_millis);
    let schedule = RetrySchedule {
        initial: millis(retry.initial_ms, defaults.schedule.initial),
        factor: retry.factor.unwrap_or(defaults.schedule.factor),
        floor: millis(retry.floor_ms, defaults.schedule.floor.max(floor)),
        max_attempts: retry.max_attempts.map_or(defaults.schedule.max_attempts, u32::cast_signed),
    };
    let common = Common {
        rate_per_second: rate_per_second.or(defaults.rate_per_second),
        in_flight: in_flight.unwrap_or(defaults.in_flight),
        call_timeout: millis(call_timeout_ms, defaults.call_timeout),
        never_park: never_park.unwrap_or(defaults.never_park),
        mass_invalidation: match mass_invalidation {
            Some(setting) => invalidation::limits(setting).context("mass_invalidation")?,
            None => defaults.mass_invalidation.clone(),
        },
        schedule,
        slow_tier: match slow_tier {
            Some(setting) => slow_tier::of(setting).context("slow_tier")?,
            None => defaults.slow_tier,
        },
    };
    ensure!(
        rate_per_second.is_none_or(|rate| (1..=MOST_PER_SECOND).contains(&rate)),
        "rate_per_second is {}: give it 1 to {MOST_PER_SECOND}, or leave it out for no limit",
        rate_per_second.unwrap_or_default()
    );
    let problems = common.problems(&[
        "in_flight",
        "call_timeout_ms",
        "retry.initial_ms",
        "retry.max_attempts",
        "retry.factor",
    ]);
    ensure!(problems.is_empty(), "{}", problems.join("; "));
    Ok(common)
}

impl Common {
    /// What is out of its range, under the names that each setting has where it was given.
    pub(super) fn problems(&self, names: &[&str; 5]) -> Vec<String> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let attempts = u64::try_from(self.schedule.max_attempts).unwrap_or(0);
        let ranges: [(u64, u64, u64); 4] = [
            (self.in_flight.into(), 1, 100_000),
            (millis(self.call_timeout), 10, 600_000),
            (millis(self.schedule.initial), 10, 86_400_000),
            (attempts, 1, 20),
        ];
        let mut problems: Vec<_> = names
            .iter()
            .zip(ranges)
            .filter(|(_, (value, least, most))| !(least..=most).contains(&value))
            .map(|(name, (value, least, most))| format!("{name} is {value}: give it {least} to {most}"))
            .collect();
        if !(1.0..=100.0).contains(&self.schedule.factor) {
            problems.push(format!("{} is {}: give it 1 to 100", names[4], self.schedule.factor));
        }
        problems
    }
}
