//! Why somebody did or did not get a broadcast.

use std::fmt::Write as _;

use bongsu_proto::v1;
use serde::Serialize;

use super::{DeadLetterView, DeliveryView, ProviderView, none_if_empty, time};
use crate::table::{Align, Table, details, printable, shortened};
use crate::times::to_the_second;
use crate::words::word;

/// How much of a provider's words the list of calls shows, in columns.
const DETAIL_COLUMNS: usize = 60;

#[derive(Debug, Serialize)]
pub struct ExplanationView<'a> {
    broadcast_id: String,
    verdict: String,
    summary: &'a str,
    broadcast_state: String,
    paused: bool,
    create_time: Option<String>,
    expire_time: Option<String>,
    settle_time: Option<String>,
    replay_of: Option<String>,
    deliveries_dropped: bool,
    read_time: Option<String>,
    devices: Vec<DeviceExplanationView<'a>>,
    more_devices: bool,
    providers: Vec<ProviderView<'a>>,
}

#[derive(Debug, Serialize)]
struct DeviceExplanationView<'a> {
    verdict: String,
    summary: &'a str,
    device: Option<HistoryView<'a>>,
    delivery: Option<DeliveryView<'a>>,
    failed_attempts: Vec<FailedAttemptView<'a>>,
    dead_letter: Option<DeadLetterView<'a>>,
    replays: Vec<ReplayView<'a>>,
}

#[derive(Debug, Serialize)]
struct HistoryView<'a> {
    device_id: String,
    user_id: &'a str,
    provider: &'a str,
    token_fingerprint: &'a str,
    state: String,
    consent: bool,
    register_time: Option<String>,
    retire_time: Option<String>,
    retire_reason: Option<String>,
    retire_code: Option<&'a str>,
    retired_by: Option<String>,
    quarantine_time: Option<String>,
    quarantine_code: Option<&'a str>,
    quarantine_detail: Option<&'a str>,
    quarantined_by: Option<String>,
    events: Vec<EventView<'a>>,
}

#[derive(Debug, Serialize)]
struct EventView<'a> {
    time: Option<String>,
    kind: String,
    since_time: Option<String>,
    code: Option<&'a str>,
    detail: Option<&'a str>,
    broadcast_id: Option<String>,
}

#[derive(Debug, Serialize)]
struct FailedAttemptView<'a> {
    attempt: i32,
    time: Option<String>,
    code: &'a str,
    detail: &'a str,
    charged: bool,
    next_attempt_time: Option<String>,
}

#[derive(Debug, Serialize)]
struct ReplayView<'a> {
    broadcast_id: String,
    broadcast_state: String,
    delivery: Option<DeliveryView<'a>>,
}

impl<'a> From<&'a v1::ExplainDeliveryResponse> for ExplanationView<'a> {
    fn from(answer: &'a v1::ExplainDeliveryResponse) -> Self {
        Self {
            broadcast_id: answer.broadcast_id.to_string(),
            verdict: word::<v1::DeliveryVerdict>(answer.verdict),
            summary: &answer.summary,
            broadcast_state: word::<v1::BroadcastState>(answer.broadcast_state),
            paused: answer.paused,
            create_time: time(answer.create_time.as_ref()),
            expire_time: time(answer.expire_time.as_ref()),
            settle_time: time(answer.settle_time.as_ref()),
            replay_of: id(answer.replay_of),
            deliveries_dropped: answer.deliveries_dropped,
            read_time: time(answer.read_time.as_ref()),
            devices: answer.devices.iter().map(DeviceExplanationView::from).collect(),
            more_devices: answer.more_devices,
            providers: answer.providers.iter().map(ProviderView::from).collect(),
        }
    }
}

impl<'a> From<&'a v1::DeviceExplanation> for DeviceExplanationView<'a> {
    fn from(explained: &'a v1::DeviceExplanation) -> Self {
        Self {
            verdict: word::<v1::DeliveryVerdict>(explained.verdict),
            summary: &explained.summary,
            device: explained.device.as_ref().map(HistoryView::from),
            delivery: explained.delivery.as_ref().map(DeliveryView::from),
            failed_attempts: explained.failed_attempts.iter().map(FailedAttemptView::from).collect(),
            dead_letter: explained.dead_letter.as_ref().map(DeadLetterView::from),
            replays: explained.replays.iter().map(ReplayView::from).collect(),
        }
    }
}

impl<'a> From<&'a v1::DeviceHistory> for HistoryView<'a> {
    fn from(device: &'a v1::DeviceHistory) -> Self {
        let reason = word::<v1::RetireReason>(device.retire_reason);
        Self {
            device_id: device.device_id.to_string(),
            user_id: &device.user_id,
            provider: &device.provider,
            token_fingerprint: &device.token_fingerprint,
            state: word::<v1::DeviceState>(device.state),
            consent: device.consent,
            register_time: time(device.register_time.as_ref()),
            retire_time: time(device.retire_time.as_ref()),
            retire_reason: Some(reason).filter(|reason| !reason.is_empty()),
            retire_code: none_if_empty(&device.retire_code),
            retired_by: id(device.retired_by),
            quarantine_time: time(device.quarantine_time.as_ref()),
            quarantine_code: none_if_empty(&device.quarantine_code),
            quarantine_detail: none_if_empty(&device.quarantine_detail),
            quarantined_by: id(device.quarantined_by),
            events: device.events.iter().map(EventView::from).collect(),
        }
    }
}

impl<'a> From<&'a v1::DeviceEvent> for EventView<'a> {
    fn from(event: &'a v1::DeviceEvent) -> Self {
        Self {
            time: time(event.time.as_ref()),
            kind: word::<v1::DeviceEventKind>(event.kind),
            since_time: time(event.since_time.as_ref()),
            code: none_if_empty(&event.code),
            detail: none_if_empty(&event.detail),
            broadcast_id: id(event.broadcast_id),
        }
    }
}

impl<'a> From<&'a v1::FailedAttempt> for FailedAttemptView<'a> {
    fn from(failed: &'a v1::FailedAttempt) -> Self {
        Self {
            attempt: failed.attempt,
            time: time(failed.time.as_ref()),
            code: &failed.code,
            detail: &failed.detail,
            charged: failed.charged,
            next_attempt_time: time(failed.next_attempt_time.as_ref()),
        }
    }
}

impl<'a> From<&'a v1::ReplayOutcome> for ReplayView<'a> {
    fn from(replay: &'a v1::ReplayOutcome) -> Self {
        Self {
            broadcast_id: replay.broadcast_id.to_string(),
            broadcast_state: word::<v1::BroadcastState>(replay.broadcast_state),
            delivery: replay.delivery.as_ref().map(DeliveryView::from),
        }
    }
}

fn id(id: i64) -> Option<String> {
    (id != 0).then(|| id.to_string())
}

/// One screen, for people: the sentence first, then what it rests on.
pub fn explanation_text(answer: &v1::ExplainDeliveryResponse) -> String {
    let mut state = word::<v1::BroadcastState>(answer.broadcast_state);
    if answer.paused {
        state.push_str(", paused");
    }
    let mut text = format!("{}\n\n", printable(&answer.summary));
    text.push_str(&details(&[
        ("broadcast", answer.broadcast_id.to_string()),
        ("state", state),
        ("created", to_the_second(answer.create_time.as_ref())),
        ("expires", to_the_second(answer.expire_time.as_ref())),
        ("settled", to_the_second(answer.settle_time.as_ref())),
        ("replay of", id(answer.replay_of).unwrap_or_default()),
    ]));
    for device in &answer.devices {
        text.push('\n');
        push_device(&mut text, device, answer.devices.len() > 1);
    }
    if answer.more_devices {
        text.push_str("\nthere are older devices of this user: name one with --device\n");
    }
    text
}

fn push_device(text: &mut String, explained: &v1::DeviceExplanation, several: bool) {
    let device = explained.device.clone().unwrap_or_default();
    let letter = explained.dead_letter.clone().unwrap_or_default();
    let delivery = explained.delivery.as_ref();
    text.push_str(&details(&[
        ("device", device.device_id.to_string()),
        ("why", if several { explained.summary.clone() } else { String::new() }),
        ("user", device.user_id.clone()),
        ("provider", device.provider.clone()),
        ("token", format!("{} (fingerprint)", device.token_fingerprint)),
        ("device state", word::<v1::DeviceState>(device.state)),
        ("consent", if device.consent { "yes" } else { "no" }.to_owned()),
        ("registered", to_the_second(device.register_time.as_ref())),
        ("retired", with_cause(device.retire_time.as_ref(), &retirement(&device))),
        ("quarantined", with_cause(device.quarantine_time.as_ref(), &device.quarantine_code)),
        ("delivery", delivery.map_or("none".to_owned(), |d| word::<v1::DeliveryState>(d.state))),
        ("attempts", delivery.map_or(String::new(), |d| d.attempts.to_string())),
        ("next call", to_the_second(delivery.and_then(|d| d.next_attempt_time.as_ref()))),
        ("final since", to_the_second(delivery.and_then(|d| d.settle_time.as_ref()))),
        ("died of", [word::<v1::DeadReason>(letter.reason), letter.code.clone()].join(" ").trim().to_owned()),
        ("said", shortened(&letter.detail, DETAIL_COLUMNS)),
    ]));
    for replay in &explained.replays {
        let state =
            replay.delivery.as_ref().map_or("unknown".to_owned(), |d| word::<v1::DeliveryState>(d.state));
        let _ = writeln!(text, "replayed by {}: {state}", replay.broadcast_id);
    }
    push_calls(text, explained);
    push_events(text, &device.events);
}

fn push_calls(text: &mut String, explained: &v1::DeviceExplanation) {
    if explained.failed_attempts.is_empty() {
        return;
    }
    let mut table = Table::new(&[
        ("FAILED CALL", Align::Right),
        ("AT", Align::Left),
        ("CODE", Align::Left),
        ("CHARGED", Align::Left),
        ("NEXT DUE", Align::Left),
        ("SAID", Align::Left),
    ]);
    let row = |failed: &v1::FailedAttempt| {
        vec![
            failed.attempt.to_string(),
            to_the_second(failed.time.as_ref()),
            failed.code.clone(),
            if failed.charged { "yes" } else { "no" }.to_owned(),
            to_the_second(failed.next_attempt_time.as_ref()),
            shortened(&failed.detail, DETAIL_COLUMNS),
        ]
    };
    text.push_str(&table.page(explained.failed_attempts.iter().map(row).collect()));
}

fn push_events(text: &mut String, events: &[v1::DeviceEvent]) {
    if events.is_empty() {
        return;
    }
    let mut table = Table::new(&[
        ("DEVICE HISTORY", Align::Left),
        ("WHAT", Align::Left),
        ("SINCE", Align::Left),
        ("CODE", Align::Left),
    ]);
    let row = |event: &v1::DeviceEvent| {
        vec![
            to_the_second(event.time.as_ref()),
            word::<v1::DeviceEventKind>(event.kind),
            to_the_second(event.since_time.as_ref()),
            event.code.clone(),
        ]
    };
    text.push_str(&table.page(events.iter().map(row).collect()));
}

fn retirement(device: &v1::DeviceHistory) -> String {
    [word::<v1::RetireReason>(device.retire_reason), device.retire_code.clone()].join(" ").trim().to_owned()
}

fn with_cause(time: Option<&prost_types::Timestamp>, cause: &str) -> String {
    [to_the_second(time), cause.to_owned()].join(" ").trim().to_owned()
}
