//! Pieces of the sentences of an explanation.

use bongsu_proto::v1::DeliveryVerdict;
use bongsu_store::DeliveryState;
use time::OffsetDateTime;
use time::macros::format_description;

/// Characters of a provider's words that a sentence quotes. The whole is beside it.
const QUOTED: usize = 120;

/// To the second, in UTC.
pub(super) fn at(moment: OffsetDateTime) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second] UTC");
    // Every moment that Postgres has can be written so; what cannot is still told.
    moment
        .to_offset(time::UtcOffset::UTC)
        .format(&format)
        .unwrap_or_else(|_| moment.unix_timestamp().to_string())
}

/// The call with that number, from 1.
pub(super) fn call(attempt: i32) -> String {
    match attempt {
        1 => "the first call".to_owned(),
        2 => "the second call".to_owned(),
        3 => "the third call".to_owned(),
        n => format!("call {n}"),
    }
}

/// How a call failed. Words in small letters are ours, for calls that had no answer.
pub(super) fn failed(provider: &str, code: &str, detail: &str) -> String {
    let ours = code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let quoted: String = detail.chars().take(QUOTED).collect();
    let more = if quoted.len() < detail.len() { "…" } else { "" };
    let words =
        if quoted.trim().is_empty() { String::new() } else { format!(" (“{}{more}”)", quoted.trim()) };
    if ours {
        format!("{provider} gave no answer: {code}{words}")
    } else {
        format!("{provider} said {code}{words}")
    }
}

pub(super) fn state_word(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Pending => "pending",
        DeliveryState::Sending => "being sent",
        DeliveryState::Sent => "sent",
        DeliveryState::Dead => "dead",
        DeliveryState::Expired => "expired",
        DeliveryState::Skipped => "skipped",
        DeliveryState::Cancelled => "cancelled",
        DeliveryState::Unconfirmed => "unconfirmed",
    }
}

/// As it is spelled, in small letters.
pub(super) fn verdict(verdict: DeliveryVerdict) -> String {
    let name = verdict.as_str_name();
    name.strip_prefix("DELIVERY_VERDICT_").unwrap_or(name).to_ascii_lowercase()
}
