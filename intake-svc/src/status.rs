//! The one place that builds a `tonic::Status`: the errors of the API, as the .proto comments promise them.
//!
//! What the sender has in common with us is in `bongsu_ops::api`. A message is enough without its details.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bongsu_ops::api::{self, Violations, refusal};
use bongsu_store::{Broadcast, BroadcastId, BroadcastState, MOST_AHEAD, StoreError};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tonic::{Code, Status};

use crate::convert;

/// Names listed in an error at most.
const MAX_LISTED_NAMES: usize = 20;

/// INVALID_REQUEST with one violation.
pub(crate) fn invalid_field(field: &str, description: impl Into<String>) -> Status {
    api::invalid(&Violations::one(field, description))
}

/// UNKNOWN_PROVIDER: no provider of this name is configured, but these are.
pub(crate) fn unknown_provider(field: &str, name: &str, configured: &[String]) -> Status {
    let text = unknown_provider_text(name, configured);
    let listed = configured.iter().take(MAX_LISTED_NAMES).cloned().collect::<Vec<_>>().join(",");
    let metadata = [("provider", name.to_owned()), ("configured", listed)];
    refusal(Code::InvalidArgument, "UNKNOWN_PROVIDER", format!("{field}: {text}"), &metadata, |details| {
        details.add_bad_request_violation(field, text);
    })
}

/// The sentence of [`unknown_provider`], for the report of an import too.
pub(crate) fn unknown_provider_text(name: &str, configured: &[String]) -> String {
    if configured.is_empty() {
        return format!(
            "no provider \"{name}\" is configured, and no other one either: start sender-svc with --webhook NAME=URL first"
        );
    }
    let shown = configured[..configured.len().min(MAX_LISTED_NAMES)].join(", ");
    let more = match configured.len().saturating_sub(MAX_LISTED_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("no provider \"{name}\" is configured; there are: {shown}{more}")
}

/// BROADCAST_NOT_FOUND.
pub(crate) fn broadcast_not_found(id: BroadcastId) -> Status {
    api::broadcast_not_found(id.0)
}

/// DEVICE_NOT_FOUND; `which` is how the caller named it, without its token.
pub(crate) fn device_not_found(which: &str) -> Status {
    let message = format!("there is no {which}");
    refusal(Code::NotFound, "DEVICE_NOT_FOUND", message.clone(), &[], |details| {
        details.set_resource_info("bongsu.v1.Device", which, "", message);
    })
}

/// IDEMPOTENCY_KEY_REUSED: the key stands for a broadcast with other content.
pub(crate) fn idempotency_key_reused(key: &str, existing: BroadcastId) -> Status {
    let message = format!(
        "idempotency_key \"{key}\" was used for broadcast {existing}, whose content is another one: nothing was stored; \
         use a new key for a new announcement, or send the same content to get that broadcast"
    );
    let metadata = [("broadcast_id", existing.to_string())];
    refusal(Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED", message.clone(), &metadata, |details| {
        details.set_resource_info("bongsu.v1.Broadcast", existing.to_string(), "", message);
    })
}

/// BROADCAST_FINAL: it has ended, or is about to, so it cannot be `asked` ("paused", say) any more.
pub(crate) fn broadcast_final(broadcast: &Broadcast, asked: &str) -> Status {
    let state = match broadcast.state {
        BroadcastState::Cancelled => "cancelled",
        BroadcastState::Cancelling => "cancelling",
        _ => "completed",
    };
    let message = format!("broadcast {} is {state}: it cannot be {asked} any more", broadcast.id);
    let metadata = [("broadcast_id", broadcast.id.to_string()), ("state", state.to_owned())];
    refusal(Code::FailedPrecondition, "BROADCAST_FINAL", message.clone(), &metadata, |details| {
        details.add_precondition_failure_violation("STATE", format!("broadcasts/{}", broadcast.id), message);
    })
}

/// BROADCAST_STARTED: it does not wait for its time any more, or never did.
pub(crate) fn broadcast_started(broadcast: &Broadcast) -> Status {
    let state = convert::state(broadcast.state).as_str_name().trim_start_matches("BROADCAST_STATE_");
    let state = state.to_ascii_lowercase();
    let message = format!(
        "broadcast {} is {state}: only one that is scheduled can start at another time; it can be paused or cancelled before it \
         ends",
        broadcast.id
    );
    let metadata = [("broadcast_id", broadcast.id.to_string()), ("state", state)];
    refusal(Code::FailedPrecondition, "BROADCAST_STARTED", message.clone(), &metadata, |details| {
        details.add_precondition_failure_violation("STATE", format!("broadcasts/{}", broadcast.id), message);
    })
}

/// INVALID_REQUEST: the start is further ahead than it may be.
pub(crate) fn too_far_ahead(now: OffsetDateTime) -> Status {
    let days = MOST_AHEAD.as_secs() / 86_400;
    let now = rfc3339(now);
    let problem = format!("is more than {days} days after now, which is {now} by the database's clock");
    invalid_field("schedule_time", problem)
}

/// How a moment is told.
pub(crate) fn rfc3339(moment: OffsetDateTime) -> String {
    moment.format(&Rfc3339).unwrap_or_default()
}

/// DRAINING: this process is stopping.
pub(crate) fn draining() -> Status {
    api::draining("intake")
}

/// IMPORT_IDLE: the client opened an import and fell silent.
pub(crate) fn import_idle(after: Duration) -> Status {
    let message = format!("no further message came within {} s: the import was ended", after.as_secs());
    refusal(Code::DeadlineExceeded, "IMPORT_IDLE", message, &[], |_| {})
}

/// What a failed store operation means to the caller. `doing` says in the log what failed.
pub(crate) fn from_store(error: &StoreError, doing: &str) -> Status {
    match error {
        StoreError::Unavailable(detail) | StoreError::TooSlow(detail) => {
            log_unavailable(doing, detail);
            api::database_unavailable()
        }
        StoreError::Data(_) | StoreError::Config(_) | StoreError::Schema(_) | StoreError::Bug(_) => {
            tracing::error!(doing, %error, "a call failed by a fault of ours");
            api::internal("intake-svc")
        }
    }
}

/// An outage fails every call; a line a second says as much as a line each.
fn log_unavailable(doing: &str, detail: &str) {
    static LAST_LOGGED_S: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if LAST_LOGGED_S.swap(now, Ordering::Relaxed) != now {
        tracing::warn!(doing, detail, "a call failed because the database does not answer in time");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bongsu_ops::api::RETRY_AFTER;
    use tonic_types::StatusExt as _;

    #[test]
    fn every_status_carries_domain_and_reason() {
        let statuses = [
            (invalid_field("title", "is missing"), Code::InvalidArgument, "INVALID_REQUEST"),
            (unknown_provider("provider", "x", &[]), Code::InvalidArgument, "UNKNOWN_PROVIDER"),
            (broadcast_not_found(BroadcastId(7)), Code::NotFound, "BROADCAST_NOT_FOUND"),
            (device_not_found("device 7"), Code::NotFound, "DEVICE_NOT_FOUND"),
            (idempotency_key_reused("k", BroadcastId(7)), Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED"),
            (draining(), Code::Unavailable, "DRAINING"),
            (import_idle(Duration::from_secs(60)), Code::DeadlineExceeded, "IMPORT_IDLE"),
        ];
        for (status, code, reason) in statuses {
            let details = status.get_error_details();
            let info = details.error_info().expect("every status has one");
            assert_eq!((status.code(), info.reason.as_str(), info.domain.as_str()), (code, reason, "bongsu"));
        }
    }

    #[test]
    fn an_unavailable_database_says_when_to_ask_again_and_a_bug_says_nothing() {
        let away = from_store(&StoreError::Unavailable("connection refused".into()), "test");
        assert_eq!(away.code(), Code::Unavailable);
        let retry = away.get_error_details().retry_info().and_then(|info| info.retry_delay);
        assert_eq!(retry, Some(RETRY_AFTER));
        let bug = from_store(&StoreError::Bug("column \"secret\"".into()), "test");
        assert_eq!(bug.code(), Code::Internal);
        assert!(!bug.message().contains("secret"));
    }

    #[test]
    fn an_unknown_provider_is_told_with_those_that_exist() {
        let names: Vec<String> = (0..25).map(|n| format!("p{n}")).collect();
        let text = unknown_provider_text("x", &names);
        assert!(text.ends_with("p18, p19 and 5 more"), "{text}");
        assert!(unknown_provider_text("x", &[]).contains("--webhook NAME=URL"));
    }
}
