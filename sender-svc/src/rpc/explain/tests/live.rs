//! Where a push waits for an acknowledgement.

use super::*;

fn live_first() -> ExplainedBroadcast {
    ExplainedBroadcast { live_first: true, ..broadcast() }
}

fn with_code(state: DeliveryState, attempts: i32, code: &str) -> ExplainedDevice {
    let mut device = with(state, attempts);
    device.delivery.as_mut().unwrap().last_code = Some(code.into());
    device
}

#[test]
fn what_a_client_acknowledged_is_told_with_the_moment_as_long_as_that_is_kept() {
    let mut seen = with_code(DeliveryState::Skipped, 0, "seen_live");
    let text = "a client of the user acknowledged it live: fcm did not have to be called";
    says(&live_first(), &seen, &provider(), DeliveryVerdict::SeenLive, text);
    seen.acknowledged_at = Some(after(4));
    let text =
        "a client of the user acknowledged it live at 2026-11-30 12:00:04 UTC: fcm did not have to be called";
    says(&live_first(), &seen, &provider(), DeliveryVerdict::SeenLive, text);
    // It is to end so once it is looked at.
    let mut waiting = with_code(DeliveryState::Pending, 1, "awaiting_ack");
    waiting.acknowledged_at = Some(after(4));
    says(&live_first(), &waiting, &provider(), DeliveryVerdict::SeenLive, text);
}

#[test]
fn what_waits_for_an_acknowledgement_says_until_when() {
    let mut waiting = with_code(DeliveryState::Pending, 1, "awaiting_ack");
    waiting.delivery.as_mut().unwrap().next_attempt_at = Some(after(70));
    let text = "the user was connected when its turn came: it waits for an acknowledgement until 2026-11-30 12:01:10 UTC, \
                and then fcm is called";
    says(&live_first(), &waiting, &provider(), DeliveryVerdict::AwaitingAck, text);
    let paused = ExplainedBroadcast { paused: true, ..live_first() };
    let text = "the broadcast is paused: it waits until that is resumed";
    says(&paused, &waiting, &provider(), DeliveryVerdict::Paused, text);
}

#[test]
fn having_waited_for_an_acknowledgement_is_no_call() {
    let text = "fcm accepted it at 2026-11-30 12:00:10 UTC on the first call; whether the device showed it is not known here";
    says(&live_first(), &with(DeliveryState::Sent, 2), &provider(), DeliveryVerdict::Sent, text);
    let mut failed_first = with(DeliveryState::Sent, 3);
    let (code, detail) = ("503".into(), String::new());
    failed_first.failures =
        vec![FailedAttempt { attempt: 1, at: after(5), due_at: after(7), charged: true, code, detail }];
    let text = "fcm accepted it at 2026-11-30 12:00:10 UTC on the second call; whether the device showed it is not known here";
    says(&live_first(), &failed_first, &provider(), DeliveryVerdict::Sent, text);
    let text = "the broadcast expired at 2026-11-30 13:00:00 UTC before fcm accepted it: its turn for a first call had not come";
    let expired = with_code(DeliveryState::Expired, 1, "awaiting_ack");
    says(&live_first(), &expired, &provider(), DeliveryVerdict::Expired, text);
    let mut rejected = died(DeadReason::AttemptsExhausted, "503", "");
    rejected.dead_letter.as_mut().unwrap().attempts = 2;
    let text = "fcm said 503 at 2026-11-30 12:00:10 UTC on the first call, the last of the attempts; it can be replayed";
    says(&live_first(), &rejected, &provider(), DeliveryVerdict::AttemptsExhausted, text);
}
