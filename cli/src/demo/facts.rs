//! What the demo measured, and what must hold of it.

use bongsu_proto::v1::DeliveryCounts;
use provider_sim::Stats;
use serde::Serialize;

use super::Args;
use super::killing::Kill;

/// All measured, none assumed.
#[derive(Debug, Serialize)]
pub struct Facts {
    /// Devices that were to be notified.
    pub devices: u32,
    /// From CreateBroadcast to its answer, in milliseconds.
    pub accept_ms: f64,
    /// The same when the button was pressed again.
    pub replay_ms: f64,
    /// Whether pressing again gave the same broadcast.
    pub replay_same_broadcast: bool,
    /// Whether the same key with another text was refused.
    pub conflict_refused: bool,
    /// By final state, as committed.
    pub deliveries: Deliveries,
    pub dead_by_reason: DeadByReason,
    /// Deliveries that were answered 503 by chance and accepted later, as the provider counted.
    pub transient_recovered: u64,
    /// As the provider counted.
    pub provider: Provider,
    /// What the provider had accepted at the kill and the database had not recorded: what may be duplicated.
    pub in_flight_at_kill: Option<u64>,
    /// From the last acceptance before the kill to the first after it, in milliseconds.
    pub stall_ms: Option<u64>,
    /// From CreateBroadcast's answer to the final state, in milliseconds.
    pub total_ms: u64,
    /// Devices that neither the provider accepted nor a dead letter explains.
    pub lost: i64,
}

#[derive(Debug, Serialize)]
pub struct Deliveries {
    pub total: i64,
    pub sent: i64,
    pub dead: i64,
    pub pending: i64,
    pub expired: i64,
    pub skipped: i64,
    pub cancelled: i64,
}

#[derive(Debug, Serialize)]
pub struct DeadByReason {
    pub unregistered: i64,
    pub attempts_exhausted: i64,
    pub rejected: i64,
}

#[derive(Debug, Serialize)]
pub struct Provider {
    pub calls: u64,
    pub accepted: u64,
    pub duplicates: u64,
    pub suppressed: u64,
}

/// How the operator's presses were answered.
#[derive(Debug)]
pub struct Presses {
    pub accept_ms: f64,
    pub replay_ms: f64,
    pub replay_same_broadcast: bool,
    pub conflict_refused: bool,
}

impl Facts {
    pub fn new(
        args: &Args,
        presses: &Presses,
        counts: &DeliveryCounts,
        stats: &Stats,
        kill: Option<Kill>,
        total_ms: u64,
    ) -> Self {
        let stall = stats.mark.as_ref().and_then(|mark| {
            Some(mark.first_accepted_after_unix_ms?.saturating_sub(mark.last_accepted_before_unix_ms?))
        });
        let accounted = i64::try_from(stats.accepted).unwrap_or(i64::MAX) + counts.dead;
        Self {
            devices: args.devices,
            accept_ms: presses.accept_ms,
            replay_ms: presses.replay_ms,
            replay_same_broadcast: presses.replay_same_broadcast,
            conflict_refused: presses.conflict_refused,
            deliveries: Deliveries {
                total: counts.total,
                sent: counts.sent,
                dead: counts.dead,
                pending: counts.pending,
                expired: counts.expired,
                skipped: counts.skipped,
                cancelled: counts.cancelled,
            },
            dead_by_reason: DeadByReason {
                unregistered: counts.dead_unregistered,
                attempts_exhausted: counts.dead_attempts_exhausted,
                rejected: counts.dead_rejected,
            },
            transient_recovered: stats.transient_recovered,
            provider: Provider {
                calls: stats.calls,
                accepted: stats.accepted,
                duplicates: stats.duplicates,
                suppressed: stats.suppressed,
            },
            in_flight_at_kill: kill.map(|kill| kill.accepted.saturating_sub(kill.recorded)),
            stall_ms: kill.and(stall),
            total_ms,
            lost: (i64::from(args.devices) - accounted).max(0),
        }
    }

    /// What should have been otherwise; empty where every promise was kept. No time is among them: how fast it was depends
    /// on the machine.
    pub fn broken_promises(&self, args: &Args) -> Vec<String> {
        let mut broken = Vec::new();
        let mut must = |kept: bool, what: String| {
            if !kept {
                broken.push(what);
            }
        };
        let d = &self.deliveries;
        must(self.replay_same_broadcast, "pressing again gave another broadcast".into());
        must(self.conflict_refused, "another text under the same key was accepted".into());
        must(
            d.total == i64::from(args.devices),
            format!("{} deliveries for {} devices", d.total, args.devices),
        );
        must(d.sent + d.dead == d.total, format!("sent {} and dead {} are not {}", d.sent, d.dead, d.total));
        must(
            self.dead_by_reason.unregistered == i64::from(args.expired),
            format!(
                "{} dead as unregistered, {} tokens were gone",
                self.dead_by_reason.unregistered, args.expired
            ),
        );
        // With enough bad luck a good device is answered 503 four times; a failing one always is.
        must(
            self.dead_by_reason.attempts_exhausted >= i64::from(args.failing),
            format!(
                "{} dead after all attempts, {} always fail",
                self.dead_by_reason.attempts_exhausted, args.failing
            ),
        );
        must(self.lost == 0, format!("{} devices were lost", self.lost));
        let allowed = if args.provider_dedupe { 0 } else { self.in_flight_at_kill.unwrap_or(0) };
        must(
            self.provider.duplicates <= allowed,
            format!("{} duplicates, at most {allowed} can be explained", self.provider.duplicates),
        );
        broken
    }
}
