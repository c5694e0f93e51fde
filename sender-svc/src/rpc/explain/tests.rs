//! Each verdict, and the sentence that goes with it.

mod live;

use bongsu_proto::v1::DeliveryVerdict;
use bongsu_store::{
    AudienceKind, BroadcastId, BroadcastState, DeadReason, DeliveryState, Device, DeviceEvent,
    DeviceEventKind, DeviceId, ExplainedBroadcast, ExplainedDelivery, ExplainedDevice, FailedAttempt,
    LetterFacts, ProviderId, ProviderInfo, ReplayOutcome, RetireReason,
};
use time::OffsetDateTime;
use time::macros::datetime;

use super::overall;
use super::verdict::Case;

const ID: BroadcastId = BroadcastId(7);

/// So many seconds after the broadcast was accepted.
fn after(seconds: i64) -> OffsetDateTime {
    datetime!(2026-11-30 12:00:00 UTC) + time::Duration::seconds(seconds)
}

/// To everyone, fanned out within two seconds, and looked at after a minute.
fn broadcast() -> ExplainedBroadcast {
    ExplainedBroadcast {
        id: ID,
        state: BroadcastState::Delivering,
        paused: false,
        created_at: after(0),
        expires_at: after(3_600),
        settled_at: None,
        audience: AudienceKind::Everyone,
        topics: vec![],
        replay_of: None,
        live_first: false,
        fan_out_until: Some(DeviceId(1_000)),
        fan_out_page_at: Some(after(2)),
        dropped: false,
        read_at: after(60),
        fan_out: (ProviderId(1), 0, DeviceId(1_000)),
    }
}

/// A device that was always there, and has no delivery.
fn device() -> ExplainedDevice {
    ExplainedDevice {
        device: Device {
            id: DeviceId(5),
            user_id: "u".into(),
            provider: "fcm".into(),
            token: "a secret".into(),
            installation_id: None,
            consent: true,
            registered_at: after(-9_999),
            retired_at: None,
            retire_reason: None,
            retired_by: None,
            retire_code: None,
            quarantined_at: None,
            quarantine_code: None,
            quarantine_detail: None,
            quarantined_by: None,
            topics: vec![],
        },
        shard: 0,
        provider_id: ProviderId(1),
        delivery: None,
        failures: vec![],
        dead_letter: None,
        replays: vec![],
        events: vec![],
        listed: None,
        acknowledged_at: None,
        original_died: false,
        original_replayed_by: None,
    }
}

fn delivery(state: DeliveryState, attempts: i32) -> ExplainedDelivery {
    let settled = !matches!(state, DeliveryState::Pending | DeliveryState::Sending);
    ExplainedDelivery {
        state,
        attempts,
        next_attempt_at: None,
        last_code: None,
        dead_reason: None,
        settled_at: settled.then(|| after(10)),
    }
}

fn with(state: DeliveryState, attempts: i32) -> ExplainedDevice {
    ExplainedDevice { delivery: Some(delivery(state, attempts)), ..device() }
}

fn died(reason: DeadReason, code: &str, detail: &str) -> ExplainedDevice {
    let (attempts, code, detail) = (1, code.into(), detail.into());
    let letter = LetterFacts { attempts, reason, created_at: after(10), code, detail, replayed_by: None };
    ExplainedDevice { dead_letter: Some(letter), ..with(DeliveryState::Dead, 1) }
}

fn event(seconds: i64, kind: DeviceEventKind) -> DeviceEvent {
    DeviceEvent { at: after(seconds), kind, since: None, code: None, detail: None, broadcast: None }
}

fn provider() -> ProviderInfo {
    ProviderInfo {
        id: ProviderId(1),
        name: "fcm".into(),
        kind: "fcm".into(),
        held_until: None,
        parked_since: None,
        parked_code: None,
        parked_detail: None,
        probe_at: None,
        probes_failed: 0,
        doubted: false,
        by_hand: false,
    }
}

/// Decides, and compares with the whole sentence.
#[track_caller]
fn says(
    broadcast: &ExplainedBroadcast,
    device: &ExplainedDevice,
    provider: &ProviderInfo,
    expected: DeliveryVerdict,
    sentence: &str,
) {
    let (verdict, text) = Case { broadcast, device, provider: Some(provider) }.decide();
    assert_eq!((verdict, text.as_str()), (expected, sentence));
}

#[test]
fn a_token_that_is_gone_is_told_with_the_providers_word_the_moment_and_what_became_of_the_device() {
    let mut gone = died(DeadReason::Unregistered, "UNREGISTERED", "");
    let said = "fcm said UNREGISTERED at 2026-11-30 12:00:10 UTC on the first call; ";
    let tell = |gone: &ExplainedDevice, rest: &str| {
        says(&broadcast(), gone, &provider(), DeliveryVerdict::Unregistered, &format!("{said}{rest}"));
    };
    tell(&gone, "the device was not retired for it, or is not yet");
    gone.device.retired_at = Some(after(70));
    gone.device.retired_by = Some(ID);
    tell(&gone, "the device was retired, and nothing is tried again until it registers");
    gone.device.retired_by = Some(BroadcastId(6));
    tell(&gone, "the device is retired since 2026-11-30 12:01:10 UTC");
    gone.device.retired_at = None;
    let undone = event(80, DeviceEventKind::RetirementUndone);
    gone.events = vec![DeviceEvent { since: Some(after(70)), broadcast: Some(ID), ..undone }];
    tell(&gone, "the device was retired for it, and restored at 2026-11-30 12:01:20 UTC");
    gone.events.clear();
    gone.device.registered_at = after(30);
    tell(&gone, "the device has registered again at 2026-11-30 12:00:30 UTC: it can be replayed");
}

#[test]
fn what_a_provider_refused_or_never_answered_is_told_in_its_words_or_ours() {
    let refused = died(DeadReason::Rejected, "400", "{\"error\":\"too big\"}");
    let text = "fcm said 400 (“{\"error\":\"too big\"}”) at 2026-11-30 12:00:10 UTC on the first call; \
                the device is left as it is, and it can be replayed";
    says(&broadcast(), &refused, &provider(), DeliveryVerdict::Rejected, text);
    let exhausted = died(DeadReason::AttemptsExhausted, "timeout", "");
    let text = "fcm gave no answer: timeout at 2026-11-30 12:00:10 UTC on the first call, the last of the attempts; it can be replayed";
    says(&broadcast(), &exhausted, &provider(), DeliveryVerdict::AttemptsExhausted, text);
    let mut suspect = died(DeadReason::Rejected, "BadDeviceToken", "");
    suspect.device.quarantined_at = Some(after(20));
    suspect.device.quarantined_by = Some(ID);
    let text = "fcm said BadDeviceToken at 2026-11-30 12:00:10 UTC on the first call; the device is quarantined since \
                2026-11-30 12:00:20 UTC, and not called until it registers again or is restored";
    says(&broadcast(), &suspect, &provider(), DeliveryVerdict::Rejected, text);
}

#[test]
fn a_dead_letter_tells_how_the_last_replay_of_it_ended() {
    let mut dead = died(DeadReason::Rejected, "400", "");
    let base = "fcm said 400 at 2026-11-30 12:00:10 UTC on the first call; the device is left as it is, and it can be replayed";
    let replayed = |state, delivery| vec![ReplayOutcome { broadcast: BroadcastId(9), state, delivery }];
    let mut tell = |replays, verdict, rest: &str| {
        dead.replays = replays;
        says(&broadcast(), &dead, &provider(), verdict, &format!("{base}; {rest}"));
    };
    let sent = replayed(BroadcastState::Completed, Some(delivery(DeliveryState::Sent, 1)));
    tell(sent, DeliveryVerdict::SentByReplay, "the replay 9 was accepted at 2026-11-30 12:00:10 UTC");
    let again = replayed(BroadcastState::Completed, Some(delivery(DeliveryState::Dead, 1)));
    tell(again, DeliveryVerdict::Rejected, "the replay 9 took it up, where it is dead");
    let old = replayed(BroadcastState::Completed, None);
    tell(old, DeliveryVerdict::Rejected, "the replay 9 took it up, and how that ended is not kept any more");
}

#[test]
fn what_waits_says_for_what() {
    let waiting = with(DeliveryState::Pending, 0);
    let queue = "it waits in the queue of fcm for its first call";
    says(&broadcast(), &waiting, &provider(), DeliveryVerdict::Waiting, queue);
    let paused = ExplainedBroadcast { paused: true, ..broadcast() };
    let text = "the broadcast is paused: it waits until that is resumed";
    says(&paused, &waiting, &provider(), DeliveryVerdict::Paused, text);
    let parked = ProviderInfo { parked_since: Some(after(5)), parked_code: Some("503".into()), ..provider() };
    let text = "fcm fails as a whole since 2026-11-30 12:00:05 UTC (503): it waits, and uses up no attempts";
    says(&broadcast(), &waiting, &parked, DeliveryVerdict::ProviderParked, text);
    let held = ProviderInfo { held_until: Some(after(90)), ..provider() };
    let text = "fcm asked not to be called until 2026-11-30 12:01:30 UTC: it waits";
    says(&broadcast(), &waiting, &held, DeliveryVerdict::ProviderHeld, text);
    let over = ProviderInfo { held_until: Some(after(59)), ..provider() };
    says(&broadcast(), &waiting, &over, DeliveryVerdict::Waiting, queue);

    let mut retrying = with(DeliveryState::Pending, 2);
    let open = retrying.delivery.as_mut().unwrap();
    (open.last_code, open.next_attempt_at) = (Some("503".into()), Some(after(66)));
    let (code, detail) = ("503".into(), "busy".into());
    retrying.failures =
        vec![FailedAttempt { attempt: 2, at: after(60), due_at: after(66), charged: true, code, detail }];
    let text = "fcm said 503 (“busy”) at 2026-11-30 12:01:00 UTC on the second call; the next one is due at 2026-11-30 12:01:06 UTC";
    says(&broadcast(), &retrying, &provider(), DeliveryVerdict::Retrying, text);
}

#[test]
fn consent_is_told_as_it_was_when_it_mattered_and_not_as_it_is() {
    let kinds = (DeviceEventKind::ConsentWithdrawn, DeviceEventKind::ConsentGiven);
    let mut then = device();
    then.events = vec![event(-50, kinds.0), event(50, kinds.1)];
    let text = "when the broadcast was fanned out, there was no consent: it had been withdrawn at 2026-11-30 11:59:10 UTC";
    says(&broadcast(), &then, &provider(), DeliveryVerdict::NoConsent, text);
    then.events.remove(0);
    let text = "when the broadcast was fanned out, there was no consent, as far as is recorded";
    says(&broadcast(), &then, &provider(), DeliveryVerdict::NoConsent, text);
    // Withdrawn since, so it is no reason.
    let mut now = device();
    (now.device.consent, now.events) = (false, vec![event(50, kinds.0)]);
    let text = "there is no delivery, and nothing that is recorded says why";
    says(&broadcast(), &now, &provider(), DeliveryVerdict::Unknown, text);
    let mut skipped = with(DeliveryState::Skipped, 0);
    skipped.events = vec![event(8, kinds.0), event(50, kinds.1)];
    let text = "when its turn came at 2026-11-30 12:00:10 UTC, there was no consent: it had been withdrawn at 2026-11-30 12:00:08 UTC";
    says(&broadcast(), &skipped, &provider(), DeliveryVerdict::Skipped, text);
}

#[test]
fn a_device_that_was_put_aside_then_is_told_so_although_it_is_live_again() {
    let mut live = device();
    let restored = event(50, DeviceEventKind::RetirementUndone);
    live.events = vec![DeviceEvent { since: Some(after(-60)), code: Some("410".into()), ..restored }];
    let text = "when the broadcast was fanned out, the device had been retired since 2026-11-30 11:59:00 UTC (its provider said \
                that the token is gone; undone since)";
    says(&broadcast(), &live, &provider(), DeliveryVerdict::RetiredBefore, text);
    let ended = event(50, DeviceEventKind::QuarantineEnded);
    live.events = vec![DeviceEvent { since: Some(after(-60)), code: Some("BadDeviceToken".into()), ..ended }];
    let text = "when the broadcast was fanned out, the device had been quarantined since 2026-11-30 11:59:00 UTC (BadDeviceToken)";
    says(&broadcast(), &live, &provider(), DeliveryVerdict::QuarantinedBefore, text);
    let mut retired = device();
    retired.device.retired_at = Some(after(-1));
    retired.device.retire_reason = Some(RetireReason::Replaced);
    let text = "when the broadcast was fanned out, the device had been retired since 2026-11-30 11:59:59 UTC (its token or \
                installation was registered anew)";
    says(&broadcast(), &retired, &provider(), DeliveryVerdict::RetiredBefore, text);
}

#[test]
fn who_was_not_meant_or_came_late_is_told_so() {
    let listed = ExplainedBroadcast { audience: AudienceKind::Users, ..broadcast() };
    let other = ExplainedDevice { listed: Some(false), ..device() };
    let text = "the broadcast was for a list of users, and this one is not among them";
    says(&listed, &other, &provider(), DeliveryVerdict::NotInAudience, text);
    let topics = ExplainedBroadcast {
        audience: AudienceKind::Topics,
        topics: vec!["news".into(), "sports".into()],
        ..broadcast()
    };
    let text = "the broadcast was for the topics news, sports, and the device is subscribed to none of them; whether it was is not recorded";
    says(&topics, &device(), &provider(), DeliveryVerdict::NotInAudience, text);
    let mut late = device();
    late.device.id = DeviceId(1_001);
    late.device.registered_at = after(1);
    let text = "the device was registered after the fan-out had begun, last at 2026-11-30 12:00:01 UTC";
    says(&broadcast(), &late, &provider(), DeliveryVerdict::RegisteredLater, text);
}

#[test]
fn a_fan_out_that_has_not_come_so_far_is_told_apart_from_one_that_was_cancelled_and_one_that_is_past() {
    let early = ExplainedBroadcast {
        state: BroadcastState::FanningOut,
        fan_out: (ProviderId(1), 0, DeviceId(4)),
        ..broadcast()
    };
    let text = "the fan-out of the broadcast has not come to this device yet";
    says(&early, &device(), &provider(), DeliveryVerdict::NotFannedOut, text);
    let cancelled = ExplainedBroadcast { state: BroadcastState::Cancelled, ..early.clone() };
    let text = "the broadcast was cancelled before its fan-out came to this device";
    says(&cancelled, &device(), &provider(), DeliveryVerdict::Cancelled, text);
    let past = ExplainedBroadcast { fan_out: (ProviderId(1), 0, DeviceId(5)), ..early };
    let text = "there is no delivery, and nothing that is recorded says why";
    says(&past, &device(), &provider(), DeliveryVerdict::Unknown, text);
}

#[test]
fn what_retention_dropped_is_not_guessed_but_a_dead_letter_still_tells() {
    let dropped = ExplainedBroadcast { dropped: true, ..broadcast() };
    let text = "the deliveries of this broadcast were dropped at the end of their retention, and this one left no dead letter";
    says(&dropped, &device(), &provider(), DeliveryVerdict::DeliveriesDropped, text);
    let letter = ExplainedDevice { delivery: None, ..died(DeadReason::Rejected, "400", "") };
    let text = "fcm said 400 at 2026-11-30 12:00:10 UTC on the first call; the device is left as it is, and it can be replayed";
    says(&dropped, &letter, &provider(), DeliveryVerdict::Rejected, text);
}

#[test]
fn for_several_devices_it_is_the_best_that_decides_and_all_are_counted() {
    let decided = [
        (DeliveryVerdict::Unregistered, "gone".to_owned()),
        (DeliveryVerdict::Sent, "accepted".to_owned()),
        (DeliveryVerdict::Unregistered, "gone, too".to_owned()),
    ];
    let expected = "of 3 devices, 1 sent, 2 unregistered; the best: accepted";
    assert_eq!(overall(&decided), (DeliveryVerdict::Sent, expected.to_owned()));
}

#[test]
fn every_verdict_has_its_place_among_the_others() {
    let all = (1..).map_while(|n| DeliveryVerdict::try_from(n).ok());
    for verdict in all {
        assert!(super::BEST_FIRST.contains(&verdict), "{verdict:?}");
    }
}
