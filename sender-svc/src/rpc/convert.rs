//! The bridge between the store's types and the wire.

use std::time::Duration;

use bongsu_ops::api::{Violations, from_timestamp, to_timestamp};
use bongsu_proto::v1;
use bongsu_store::{
    BroadcastId, BroadcastState, Counts, DeadLetter, DeadReason, Delivery, DeliveryState, ProviderCounts,
    ReplayCount, Status,
};
use time::OffsetDateTime;

/// A status with what the watcher measured.
pub fn status(status: &Status, rate_per_second: f64, eta: Option<Duration>) -> v1::BroadcastStatus {
    v1::BroadcastStatus {
        broadcast_id: status.id.0,
        state: broadcast_state(status.state).into(),
        counts: Some(counts(&status.providers.iter().map(|p| p.counts).sum())),
        providers: status.providers.iter().map(provider).collect(),
        rate_per_second,
        eta: eta.and_then(|eta| eta.try_into().ok()),
        read_time: Some(to_timestamp(status.read_at)),
        paused: status.paused,
        schedule_time: status.scheduled_at.map(to_timestamp),
        live: status.live.map(|live| v1::LiveCounts { events: live.events, acknowledged: live.acknowledged }),
    }
}

fn provider(p: &ProviderCounts) -> v1::ProviderStatus {
    v1::ProviderStatus {
        provider: p.provider.clone(),
        counts: Some(counts(&p.counts)),
        held_until: p.held_until.map(to_timestamp),
        parked_since: p.parked.as_ref().map(|parked| to_timestamp(parked.since)),
        parked_code: p.parked.as_ref().map(|parked| parked.code.clone()).unwrap_or_default(),
    }
}

fn counts(c: &Counts) -> v1::DeliveryCounts {
    v1::DeliveryCounts {
        total: c.total,
        pending: c.pending(),
        retrying: c.retrying,
        sent: c.sent,
        dead: c.dead(),
        expired: c.expired,
        skipped: c.skipped,
        cancelled: c.cancelled,
        dead_unregistered: c.dead_unregistered,
        dead_rejected: c.dead_rejected,
        dead_attempts_exhausted: c.dead_attempts_exhausted,
        retried: c.retried,
        unconfirmed: c.unconfirmed,
    }
}

pub fn broadcast_state(state: BroadcastState) -> v1::BroadcastState {
    match state {
        BroadcastState::Scheduled => v1::BroadcastState::Scheduled,
        BroadcastState::Accepted => v1::BroadcastState::Accepted,
        BroadcastState::FanningOut => v1::BroadcastState::FanningOut,
        BroadcastState::Delivering => v1::BroadcastState::Delivering,
        BroadcastState::Completed => v1::BroadcastState::Completed,
        BroadcastState::Cancelling => v1::BroadcastState::Cancelling,
        BroadcastState::Cancelled => v1::BroadcastState::Cancelled,
    }
}

pub fn delivery(broadcast: BroadcastId, d: Delivery) -> v1::Delivery {
    v1::Delivery {
        broadcast_id: broadcast.0,
        device_id: d.device.0,
        provider: d.provider,
        state: delivery_state(d.state).into(),
        attempts: d.attempts,
        next_attempt_time: d.next_attempt_at.map(to_timestamp),
        last_code: d.last_code.unwrap_or_default(),
        dead_reason: d.dead_reason.map_or(v1::DeadReason::Unspecified, dead_reason).into(),
        settle_time: d.settled_at.map(to_timestamp),
        user_id: d.user_id.unwrap_or_default(),
    }
}

pub fn dead_letter(l: DeadLetter) -> v1::DeadLetter {
    v1::DeadLetter {
        broadcast_id: l.broadcast.0,
        device_id: l.device.0,
        provider: l.provider,
        user_id: l.user_id.unwrap_or_default(),
        reason: dead_reason(l.reason).into(),
        code: l.code,
        detail: l.detail,
        attempts: l.attempts,
        create_time: Some(to_timestamp(l.created_at)),
        replayed_by: l.replayed_by.map_or(0, |id| id.0),
    }
}

/// What a dry run of a replay found.
pub fn replay_count(count: &ReplayCount) -> v1::ReplayDeadLettersResponse {
    let excluded = v1::ReplayExclusions {
        taken_up: count.taken_up,
        unconfirmed: count.unconfirmed,
        retired: count.retired,
        without_consent: count.without_consent,
        unknown: count.unknown,
    };
    v1::ReplayDeadLettersResponse {
        matching: count.matching,
        excluded: Some(excluded),
        partial: count.partial,
        ..Default::default()
    }
}

pub fn delivery_state(state: DeliveryState) -> v1::DeliveryState {
    match state {
        DeliveryState::Pending => v1::DeliveryState::Pending,
        DeliveryState::Sending => v1::DeliveryState::Sending,
        DeliveryState::Sent => v1::DeliveryState::Sent,
        DeliveryState::Dead => v1::DeliveryState::Dead,
        DeliveryState::Expired => v1::DeliveryState::Expired,
        DeliveryState::Skipped => v1::DeliveryState::Skipped,
        DeliveryState::Cancelled => v1::DeliveryState::Cancelled,
        DeliveryState::Unconfirmed => v1::DeliveryState::Unconfirmed,
    }
}

pub fn dead_reason(reason: DeadReason) -> v1::DeadReason {
    match reason {
        DeadReason::AttemptsExhausted => v1::DeadReason::AttemptsExhausted,
        DeadReason::Unregistered => v1::DeadReason::Unregistered,
        DeadReason::Rejected => v1::DeadReason::Rejected,
        DeadReason::Unconfirmed => v1::DeadReason::Unconfirmed,
    }
}

pub fn delivery_states(states: &[i32], violations: &mut Violations) -> Vec<DeliveryState> {
    enums(states, "states", violations, |state| match v1::DeliveryState::try_from(state).ok()? {
        v1::DeliveryState::Unspecified => None,
        v1::DeliveryState::Pending => Some(DeliveryState::Pending),
        v1::DeliveryState::Sending => Some(DeliveryState::Sending),
        v1::DeliveryState::Sent => Some(DeliveryState::Sent),
        v1::DeliveryState::Dead => Some(DeliveryState::Dead),
        v1::DeliveryState::Expired => Some(DeliveryState::Expired),
        v1::DeliveryState::Skipped => Some(DeliveryState::Skipped),
        v1::DeliveryState::Cancelled => Some(DeliveryState::Cancelled),
        v1::DeliveryState::Unconfirmed => Some(DeliveryState::Unconfirmed),
    })
}

pub fn dead_reasons(reasons: &[i32], violations: &mut Violations) -> Vec<DeadReason> {
    dead_reasons_of("reasons", reasons, violations)
}

pub fn dead_reasons_of(field: &str, reasons: &[i32], violations: &mut Violations) -> Vec<DeadReason> {
    enums(reasons, field, violations, |reason| match v1::DeadReason::try_from(reason).ok()? {
        v1::DeadReason::Unspecified => None,
        v1::DeadReason::AttemptsExhausted => Some(DeadReason::AttemptsExhausted),
        v1::DeadReason::Unregistered => Some(DeadReason::Unregistered),
        v1::DeadReason::Rejected => Some(DeadReason::Rejected),
        v1::DeadReason::Unconfirmed => Some(DeadReason::Unconfirmed),
    })
}

fn enums<T>(
    values: &[i32],
    field: &str,
    violations: &mut Violations,
    known: impl Fn(i32) -> Option<T>,
) -> Vec<T> {
    let mut out = Vec::with_capacity(values.len());
    for (i, value) in values.iter().enumerate() {
        match known(*value) {
            Some(value) => out.push(value),
            None => {
                violations
                    .add(format_args!("{field}[{i}]"), format!("is {value}, which is no value to filter by"));
            }
        }
    }
    out
}

/// A positive id.
pub fn broadcast_id(id: i64, violations: &mut Violations) -> BroadcastId {
    if id <= 0 {
        violations.add("broadcast_id", format!("is {id}; give the id of a broadcast"));
    }
    BroadcastId(id)
}

/// As registration takes them.
const MOST_USER_BYTES: usize = 256;

/// The id of a user, or the empty one.
pub fn user_id(user: String, violations: &mut Violations) -> String {
    if user.len() > MOST_USER_BYTES {
        violations
            .add("user_id", format!("has {} bytes; ids of users have {MOST_USER_BYTES} at most", user.len()));
    }
    user
}

/// An optional moment.
pub fn moment(
    field: &str,
    value: Option<&prost_types::Timestamp>,
    violations: &mut Violations,
) -> Option<OffsetDateTime> {
    let moment = from_timestamp(value?);
    if moment.is_none() {
        violations.add(field, "is no moment of the years 1 to 9999");
    }
    moment
}

/// That a time range is one.
pub fn check_order(from: Option<OffsetDateTime>, to: Option<OffsetDateTime>, violations: &mut Violations) {
    if let (Some(from), Some(to)) = (from, to)
        && from >= to
    {
        violations.add("to_time", "is not after from_time; give a later one");
    }
}
