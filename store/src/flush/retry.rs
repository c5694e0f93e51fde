//! Retries of a flush: grouped into batches that are due together.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::PgConnection;

use super::{Outcome, Verdict};
use crate::broadcast::EXPIRY_RANGE;
use crate::error::Result;
use crate::ids::{BroadcastId, DeviceId, ProviderId, Shard};

/// Retries are grouped by delays rounded up to this.
const RETRY_ROUNDING: Duration = Duration::from_millis(100);
/// A retry batch comes later than asked by a random share of the delay, at most this one, so that retries do not stay in
/// step; never earlier.
const RETRY_JITTER: f64 = 0.1;
/// No retry waits longer than a broadcast can live, whatever a provider asks for.
const LONGEST_DELAY: Duration = EXPIRY_RANGE.1;
/// Deliveries in one retry batch at most.
const RETRY_BATCH_DELIVERIES: usize = 500;

/// Makes the batches of what is to be tried again.
pub(super) async fn insert(
    tx: &mut PgConnection,
    shard: Shard,
    recorded: &[&Outcome],
    delays: &RetryDelays,
) -> Result<()> {
    let mut groups: BTreeMap<RetryGroup, Vec<(i64, i64)>> = BTreeMap::new();
    for outcome in recorded {
        if let Some(group) = RetryGroup::of(outcome) {
            groups.entry(group).or_default().push((outcome.device.0, outcome.batch.rank));
        }
    }
    if groups.is_empty() {
        return Ok(());
    }
    let (mut broadcasts, mut providers, mut attempts, mut failures) = (vec![], vec![], vec![], vec![]);
    let (mut ranks, mut waits, mut numbers, mut devices) = (vec![], vec![], vec![], vec![]);
    for (group, members) in &groups {
        for chunk in members.chunks(RETRY_BATCH_DELIVERIES) {
            broadcasts.push(group.broadcast.0);
            providers.push(group.provider.0);
            attempts.push(group.attempt);
            failures.push(group.failures);
            ranks.push(chunk.iter().map(|(_, rank)| *rank).max().unwrap_or_default());
            waits.push(delays.of_group(group));
            let number = i64::try_from(broadcasts.len()).unwrap_or(i64::MAX);
            for (device, _) in chunk {
                numbers.push(number);
                devices.push(*device);
            }
        }
    }
    sqlx::query_file!(
        "queries/flush_retries.sql",
        shard,
        &broadcasts,
        &providers,
        &attempts,
        &failures,
        &ranks,
        &waits,
        &numbers,
        &devices
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// What goes into one retry batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RetryGroup {
    broadcast: BroadcastId,
    provider: ProviderId,
    attempt: i32,
    failures: i32,
    /// In units of [`RETRY_ROUNDING`].
    rounded: u128,
    /// Nothing but this.
    alone: Option<DeviceId>,
    /// Until a deadline that was promised: never earlier, and as little later as may be.
    deadline: bool,
}

impl RetryGroup {
    fn of(outcome: &Outcome) -> Option<Self> {
        let (after, charged, alone, deadline) = match &outcome.verdict {
            Verdict::Retry { after, charged, .. } => (*after, *charged, None, false),
            Verdict::Alone => (Duration::ZERO, false, Some(outcome.device), false),
            Verdict::AwaitAck { after } => (*after, false, None, true),
            _ => return None,
        };
        Some(Self {
            broadcast: outcome.batch.broadcast,
            provider: outcome.batch.provider,
            attempt: outcome.batch.attempt + 1,
            failures: outcome.batch.failures + i32::from(charged),
            rounded: after.min(LONGEST_DELAY).as_millis().div_ceil(RETRY_ROUNDING.as_millis()),
            alone,
            deadline,
        })
    }
}

/// The delay of each retry group, drawn once, so that delivery and batch say the same.
pub(super) struct RetryDelays(BTreeMap<RetryGroup, f64>);

impl RetryDelays {
    pub(super) fn draw(outcomes: &[&Outcome]) -> Self {
        let mut drawn = BTreeMap::new();
        for group in outcomes.iter().filter_map(|o| RetryGroup::of(o)) {
            drawn.entry(group).or_insert_with(|| {
                let asked = RETRY_ROUNDING.as_secs_f64() * group.rounded as f64;
                let jitter = if group.deadline { 0.0 } else { RETRY_JITTER * rand::random::<f64>() };
                asked * (1.0 + jitter)
            });
        }
        Self(drawn)
    }

    fn of_group(&self, group: &RetryGroup) -> f64 {
        self.0.get(group).copied().unwrap_or_default()
    }

    pub(super) fn seconds(&self, outcome: &Outcome) -> Option<f64> {
        RetryGroup::of(outcome).map(|group| self.of_group(&group))
    }
}
