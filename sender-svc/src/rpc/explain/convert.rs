//! The store's facts as messages.

use bongsu_ops::api::to_timestamp;
use bongsu_proto::v1;
use bongsu_store::{
    BroadcastId, Device, DeviceEvent, DeviceEventKind, ExplainedDelivery, ExplainedDevice, FailedAttempt,
    LetterFacts, ReplayOutcome, RetireReason,
};
use sha2::{Digest as _, Sha256};

use crate::rpc::convert::{broadcast_state, dead_reason, delivery_state};

/// A device's part, but for the verdict.
pub(super) fn device(id: BroadcastId, explained: ExplainedDevice) -> v1::DeviceExplanation {
    let ExplainedDevice { device, delivery, failures, dead_letter, replays, events, .. } = explained;
    v1::DeviceExplanation {
        delivery: delivery.map(|d| self::delivery(id, &device, d)),
        failed_attempts: failures.into_iter().map(failed_attempt).collect(),
        dead_letter: dead_letter.map(|letter| self::dead_letter(id, &device, letter)),
        replays: replays.into_iter().map(|replay| self::replay(&device, replay)).collect(),
        device: Some(history(device, events)),
        ..Default::default()
    }
}

fn delivery(id: BroadcastId, device: &Device, d: ExplainedDelivery) -> v1::Delivery {
    v1::Delivery {
        broadcast_id: id.0,
        device_id: device.id.0,
        provider: device.provider.clone(),
        state: delivery_state(d.state).into(),
        attempts: d.attempts,
        next_attempt_time: d.next_attempt_at.map(to_timestamp),
        last_code: d.last_code.unwrap_or_default(),
        dead_reason: d.dead_reason.map_or(v1::DeadReason::Unspecified, dead_reason).into(),
        settle_time: d.settled_at.map(to_timestamp),
        user_id: device.user_id.clone(),
    }
}

fn dead_letter(id: BroadcastId, device: &Device, letter: LetterFacts) -> v1::DeadLetter {
    v1::DeadLetter {
        broadcast_id: id.0,
        device_id: device.id.0,
        provider: device.provider.clone(),
        user_id: device.user_id.clone(),
        reason: dead_reason(letter.reason).into(),
        code: letter.code,
        detail: letter.detail,
        attempts: letter.attempts,
        create_time: Some(to_timestamp(letter.created_at)),
        replayed_by: letter.replayed_by.map_or(0, |id| id.0),
    }
}

fn failed_attempt(failed: FailedAttempt) -> v1::FailedAttempt {
    v1::FailedAttempt {
        attempt: failed.attempt,
        time: Some(to_timestamp(failed.at)),
        code: failed.code,
        detail: failed.detail,
        charged: failed.charged,
        next_attempt_time: Some(to_timestamp(failed.due_at)),
    }
}

fn replay(device: &Device, outcome: ReplayOutcome) -> v1::ReplayOutcome {
    v1::ReplayOutcome {
        broadcast_id: outcome.broadcast.0,
        broadcast_state: broadcast_state(outcome.state).into(),
        delivery: outcome.delivery.map(|d| delivery(outcome.broadcast, device, d)),
    }
}

fn history(device: Device, events: Vec<DeviceEvent>) -> v1::DeviceHistory {
    let state = match (device.retired_at, device.quarantined_at) {
        (Some(_), _) => v1::DeviceState::Retired,
        (None, Some(_)) => v1::DeviceState::Quarantined,
        (None, None) => v1::DeviceState::Live,
    };
    v1::DeviceHistory {
        device_id: device.id.0,
        token_fingerprint: fingerprint(&device.token),
        user_id: device.user_id,
        provider: device.provider,
        state: state.into(),
        consent: device.consent,
        register_time: Some(to_timestamp(device.registered_at)),
        retire_time: device.retired_at.map(to_timestamp),
        retire_reason: device.retire_reason.map_or(v1::RetireReason::Unspecified, retire_reason).into(),
        retire_code: device.retire_code.unwrap_or_default(),
        retired_by: device.retired_by.map_or(0, |id| id.0),
        quarantine_time: device.quarantined_at.map(to_timestamp),
        quarantine_code: device.quarantine_code.unwrap_or_default(),
        quarantine_detail: device.quarantine_detail.unwrap_or_default(),
        quarantined_by: device.quarantined_by.map_or(0, |id| id.0),
        events: events.into_iter().map(event).collect(),
    }
}

/// The first 32 bits of the token's SHA-256: enough to tell two apart, and nothing to call with.
fn fingerprint(token: &str) -> String {
    Sha256::digest(token).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

fn retire_reason(reason: RetireReason) -> v1::RetireReason {
    match reason {
        RetireReason::Requested => v1::RetireReason::Requested,
        RetireReason::Replaced => v1::RetireReason::Replaced,
        RetireReason::Unregistered => v1::RetireReason::Unregistered,
    }
}

fn event(event: DeviceEvent) -> v1::DeviceEvent {
    let kind = match event.kind {
        DeviceEventKind::ConsentGiven => v1::DeviceEventKind::ConsentGiven,
        DeviceEventKind::ConsentWithdrawn => v1::DeviceEventKind::ConsentWithdrawn,
        DeviceEventKind::QuarantineEnded => v1::DeviceEventKind::QuarantineEnded,
        DeviceEventKind::QuarantineUndone => v1::DeviceEventKind::QuarantineUndone,
        DeviceEventKind::RetirementUndone => v1::DeviceEventKind::RetirementUndone,
    };
    v1::DeviceEvent {
        time: Some(to_timestamp(event.at)),
        kind: kind.into(),
        since_time: event.since.map(to_timestamp),
        code: event.code.unwrap_or_default(),
        detail: event.detail.unwrap_or_default(),
        broadcast_id: event.broadcast.map_or(0, |id| id.0),
    }
}
