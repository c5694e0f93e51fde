//! What is different where a push waits for an acknowledgement of what the user was sent live.

use bongsu_proto::v1::DeliveryVerdict;
use bongsu_store::{AWAITING_ACK, ExplainedDelivery, ExplainedDevice, KEPT_FAILURES, SEEN_LIVE};

use super::verdict::{Case, Decided};
use super::words::at;

/// How many calls were made in so many attempts; `answered`: the last of them was, and was not followed by another. Being put off for
/// an acknowledgement is an attempt without a call. A call that was followed by another attempt has left its failure, so those are
/// counted, as long as all of them are kept.
pub(super) fn calls(case: &Case<'_>, attempts: i32, answered: bool) -> i32 {
    let failures = i32::try_from(case.device.failures.len()).unwrap_or(i32::MAX);
    if !case.broadcast.live_first || failures >= KEPT_FAILURES {
        return attempts;
    }
    attempts.min(failures + i32::from(answered))
}

pub(super) fn was_seen(delivery: &ExplainedDelivery) -> bool {
    delivery.last_code.as_deref() == Some(SEEN_LIVE)
}

pub(super) fn seen(device: &ExplainedDevice) -> Decided {
    let when = device.acknowledged_at.map_or(String::new(), |moment| format!(" at {}", at(moment)));
    let name = &device.device.provider;
    let text = format!("a client of the user acknowledged it live{when}: {name} did not have to be called");
    (DeliveryVerdict::SeenLive, text)
}

pub(super) fn waits(delivery: &ExplainedDelivery) -> bool {
    delivery.last_code.as_deref() == Some(AWAITING_ACK)
}

pub(super) fn waiting(case: &Case<'_>, delivery: &ExplainedDelivery) -> Decided {
    if case.device.acknowledged_at.is_some() {
        return seen(case.device);
    }
    let name = &case.device.device.provider;
    let until = delivery.next_attempt_at.map_or(String::new(), |moment| format!(" until {}", at(moment)));
    let text = format!(
        "the user was connected when its turn came: it waits for an acknowledgement{until}, and then {name} is called"
    );
    (DeliveryVerdict::AwaitingAck, text)
}
