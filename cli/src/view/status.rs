//! The status of a broadcast: a JSON object, a table by provider, or a line of progress.

use std::fmt::Write as _;

use bongsu_proto::v1;
use serde::Serialize;

use super::broadcast::{CountsView, LiveView, live_text};
use super::{none_if_empty, seconds, time};
use crate::table::{Align, Table, number};
use crate::times::{span, to_the_second};
use crate::words::word;

#[derive(Debug, Serialize)]
pub struct StatusView<'a> {
    broadcast_id: String,
    state: String,
    paused: bool,
    counts: CountsView,
    live: Option<LiveView>,
    providers: Vec<ProviderView<'a>>,
    rate_per_second: f64,
    eta: Option<String>,
    read_time: Option<String>,
    schedule_time: Option<String>,
}

#[derive(Debug, Serialize)]
struct ProviderView<'a> {
    provider: &'a str,
    counts: CountsView,
    held_until: Option<String>,
    parked_since: Option<String>,
    parked_code: Option<&'a str>,
}

impl<'a> From<&'a v1::BroadcastStatus> for StatusView<'a> {
    fn from(status: &'a v1::BroadcastStatus) -> Self {
        let provider = |provider: &'a v1::ProviderStatus| ProviderView {
            provider: &provider.provider,
            counts: CountsView::from(provider.counts.unwrap_or_default()),
            held_until: time(provider.held_until.as_ref()),
            parked_since: time(provider.parked_since.as_ref()),
            parked_code: none_if_empty(&provider.parked_code),
        };
        Self {
            broadcast_id: status.broadcast_id.to_string(),
            state: word::<v1::BroadcastState>(status.state),
            paused: status.paused,
            counts: CountsView::from(status.counts.unwrap_or_default()),
            live: status.live.map(LiveView::from),
            providers: status.providers.iter().map(provider).collect(),
            rate_per_second: status.rate_per_second,
            eta: status.eta.map(|eta| format!("{}s", seconds(&eta))),
            read_time: time(status.read_time.as_ref()),
            schedule_time: time(status.schedule_time.as_ref()),
        }
    }
}

/// The whole status, for people: a line, a table by provider, and why the dead are dead.
pub fn status_text(status: &v1::BroadcastStatus) -> String {
    let columns = ["TOTAL", "SENT", "PENDING", "RETRYING", "DEAD", "EXPIRED", "SKIPPED", "CANCELLED"];
    let columns = columns.map(|title| (title, Align::Right));
    let mut table = Table::new(&[&[("PROVIDER", Align::Left)], &columns[..]].concat());
    let mut rows: Vec<Vec<String>> = status
        .providers
        .iter()
        .map(|provider| counts_row(&provider.provider, provider.counts.unwrap_or_default()))
        .collect();
    let counts = status.counts.unwrap_or_default();
    if rows.len() != 1 {
        rows.push(counts_row("(all)", counts));
    }

    let mut text = format!("broadcast {} is {}", status.broadcast_id, state_in_words(status));
    text.push_str(&pace(status));
    if let Some(live) = status.live {
        let _ = write!(text, "; {}", live_text(live));
    }
    text.push_str("\n\n");
    text.push_str(&table.page(rows));
    let reasons = [
        (counts.dead_unregistered, "unregistered"),
        (counts.dead_rejected, "rejected"),
        (counts.dead_attempts_exhausted, "attempts exhausted"),
    ];
    let reasons: Vec<String> = reasons
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, reason)| format!("{} {reason}", number(*n)))
        .collect();
    if !reasons.is_empty() {
        let _ = write!(text, "\ndead: {}", reasons.join(", "));
        let _ = writeln!(text, "  (bongsu dead-letters list --broadcast {})", status.broadcast_id);
    }
    if counts.unconfirmed > 0 {
        let n = number(counts.unconfirmed);
        let _ = writeln!(text, "{n} unconfirmed: whether the provider took them is not known");
    }
    for provider in &status.providers {
        let until = to_the_second(provider.held_until.as_ref());
        if !until.is_empty() {
            let _ = writeln!(text, "{} asked to slow down: no calls until {until}", provider.provider);
        }
        text.push_str(&parked(provider));
    }
    text
}

/// One line on how far it is, without the counts that a bar shows already: `delivering, 12,345/s, 48s left, 3 dead`.
pub fn progress_text(status: &v1::BroadcastStatus) -> String {
    let counts = status.counts.unwrap_or_default();
    let mut text = state_in_words(status);
    text.push_str(&pace(status));
    for (count, what) in [
        (counts.retrying, "retrying"),
        (counts.dead, "dead"),
        (counts.expired, "expired"),
        (counts.unconfirmed, "unconfirmed"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {} {what}", number(count));
        }
    }
    if let Some(live) = status.live {
        let _ = write!(text, ", {}", live_text(live));
    }
    for provider in status.providers.iter().filter(|p| p.parked_since.is_some()) {
        let _ = write!(text, ", {} parked ({})", provider.provider, provider.parked_code);
    }
    text
}

/// What is wrong with a provider that is parked; empty where it is not.
fn parked(provider: &v1::ProviderStatus) -> String {
    let since = to_the_second(provider.parked_since.as_ref());
    if since.is_empty() {
        return String::new();
    }
    if provider.parked_code == "by_hand" {
        let name = &provider.provider;
        return format!(
            "{name} is parked by hand since {since}: its deliveries wait until somebody unparks it \
             (bongsu providers unpark {name})\n"
        );
    }
    format!(
        "{} fails ({}) since {since}: its deliveries wait, without using up attempts, until it works again\n",
        provider.provider, provider.parked_code
    )
}

fn pace(status: &v1::BroadcastStatus) -> String {
    let mut text = String::new();
    if status.rate_per_second > 0.0 {
        let _ = write!(text, ", {}/s", number(status.rate_per_second.round() as i64));
    }
    if let Some(eta) = &status.eta {
        let _ = write!(text, ", {} left", span(seconds(eta).ceil().max(0.0) as u64));
    }
    text
}

fn state_in_words(status: &v1::BroadcastStatus) -> String {
    let mut state = word::<v1::BroadcastState>(status.state).replace('_', " ");
    if status.state() == v1::BroadcastState::Scheduled {
        let _ = write!(state, " for {}", to_the_second(status.schedule_time.as_ref()));
    }
    if status.paused { format!("{state}, paused") } else { state }
}

fn counts_row(name: &str, counts: v1::DeliveryCounts) -> Vec<String> {
    let numbers = [
        counts.total,
        counts.sent,
        counts.pending,
        counts.retrying,
        counts.dead,
        counts.expired,
        counts.skipped,
        counts.cancelled,
    ];
    std::iter::once(name.to_owned()).chain(numbers.map(number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivering() -> v1::BroadcastStatus {
        let counts = v1::DeliveryCounts {
            total: 100_000,
            sent: 60_000,
            pending: 39_997,
            retrying: 12,
            dead: 3,
            dead_unregistered: 2,
            dead_rejected: 1,
            ..Default::default()
        };
        v1::BroadcastStatus {
            broadcast_id: 7,
            state: v1::BroadcastState::FanningOut as i32,
            counts: Some(counts),
            providers: vec![v1::ProviderStatus {
                provider: "push".into(),
                counts: Some(counts),
                held_until: Some(prost_types::Timestamp { seconds: 1_800_000_000, nanos: 0 }),
                parked_since: Some(prost_types::Timestamp { seconds: 1_800_000_000, nanos: 0 }),
                parked_code: "503".into(),
            }],
            rate_per_second: 12_344.6,
            eta: Some(prost_types::Duration { seconds: 3, nanos: 500_000_000 }),
            read_time: None,
            paused: true,
            schedule_time: None,
            live: None,
        }
    }

    #[test]
    fn a_line_of_progress_has_rate_time_left_and_what_went_wrong() {
        assert_eq!(
            progress_text(&delivering()),
            "fanning out, paused, 12,345/s, 4s left, 12 retrying, 3 dead, push parked (503)"
        );
    }

    #[test]
    fn the_text_has_a_row_by_provider_and_says_why_the_dead_are_dead() {
        let text = status_text(&delivering());
        let expected = "\
broadcast 7 is fanning out, paused, 12,345/s, 4s left

PROVIDER    TOTAL    SENT  PENDING  RETRYING  DEAD  EXPIRED  SKIPPED  CANCELLED
push      100,000  60,000   39,997        12     3        0        0          0

dead: 2 unregistered, 1 rejected  (bongsu dead-letters list --broadcast 7)
push asked to slow down: no calls until 2027-01-15T08:00:00Z
push fails (503) since 2027-01-15T08:00:00Z: its deliveries wait, without using up attempts, until it works again
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_provider_that_is_parked_by_hand_is_not_said_to_fail() {
        let mut status = delivering();
        status.providers[0].parked_code = "by_hand".into();
        let text = status_text(&status);
        assert!(text.contains("push is parked by hand since 2027-01-15T08:00:00Z"), "{text}");
        assert!(text.contains("bongsu providers unpark push") && !text.contains("fails"), "{text}");
    }

    #[test]
    fn what_is_to_start_later_says_when() {
        let at = Some(prost_types::Timestamp { seconds: 1_800_000_000, nanos: 0 });
        let state = v1::BroadcastState::Scheduled.into();
        let status = v1::BroadcastStatus { state, schedule_time: at, ..Default::default() };
        assert_eq!(progress_text(&status), "scheduled for 2027-01-15T08:00:00Z");
    }

    #[test]
    fn what_goes_out_live_says_in_how_many_inboxes_it_is() {
        let live = Some(v1::LiveCounts { events: 12_345, acknowledged: 40 });
        let status = v1::BroadcastStatus { live, ..delivering() };
        let first = status_text(&status).lines().next().map(str::to_owned);
        let said = "in 12,345 inboxes, 40 acknowledged";
        assert!(first.is_some_and(|line| line.ends_with(&format!("; {said}"))));
        assert!(progress_text(&status).contains(said));
        let json = serde_json::to_value(StatusView::from(&status)).expect("json");
        assert_eq!(json["live"], serde_json::json!({ "events": 12_345, "acknowledged": 40 }));
    }

    #[test]
    fn json_has_ids_as_strings_words_and_nulls() {
        let status = delivering();
        let json = serde_json::to_value(StatusView::from(&status)).expect("json");
        assert_eq!(json["broadcast_id"], "7");
        assert_eq!(json["state"], "fanning_out");
        assert_eq!(json["counts"]["total"], 100_000);
        assert_eq!(json["eta"], "3.5s");
        assert_eq!(json["read_time"], serde_json::Value::Null);
        assert_eq!(json["providers"][0]["held_until"], "2027-01-15T08:00:00Z");
    }
}
