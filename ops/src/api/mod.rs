//! What both services' APIs have in common: errors with details, lists of violations, page tokens, timestamps.

mod calls;
mod page;
mod timestamp;
mod violations;

pub use calls::{CallsLayer, DEADLINE, Meter};
pub use page::{PageFilter, page_size};
pub use timestamp::{from_timestamp, to_timestamp};
pub use violations::{Violation, Violations};

use std::collections::HashMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

/// Domain of every `google.rpc.ErrorInfo` of ours.
pub const DOMAIN: &str = "bongsu";
/// When to ask again while the database is away, or another instance when this one drains.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A status with its ErrorInfo (`reason`, our domain, `metadata`), and whatever `more` adds. The message must be enough
/// without the details, and the details stay small: some clients refuse more than 8 KiB of metadata.
pub fn refusal(
    code: Code,
    reason: &str,
    message: impl Into<String>,
    metadata: &[(&str, String)],
    more: impl FnOnce(&mut ErrorDetails),
) -> Status {
    let metadata: HashMap<String, String> =
        metadata.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, DOMAIN, metadata);
    more(&mut details);
    Status::with_error_details(code, message, details)
}

/// INVALID_REQUEST: what is wrong with each field.
pub fn invalid(violations: &Violations) -> Status {
    let fields: Vec<FieldViolation> =
        violations.kept().iter().map(|v| FieldViolation::new(&v.field, &v.description)).collect();
    refusal(Code::InvalidArgument, "INVALID_REQUEST", violations.summary(), &[], |details| {
        details.set_bad_request(fields);
    })
}

/// BROADCAST_NOT_FOUND.
pub fn broadcast_not_found(id: i64) -> Status {
    let message = format!("no broadcast has the id {id}");
    let metadata = [("broadcast_id", id.to_string())];
    refusal(Code::NotFound, "BROADCAST_NOT_FOUND", message.clone(), &metadata, |details| {
        details.set_resource_info("bongsu.v1.Broadcast", id.to_string(), "", message);
    })
}

/// DRAINING: `what` (a service's name for people) is stopping.
pub fn draining(what: &str) -> Status {
    let message = format!("this {what} is stopping: ask again, at another one where there is one");
    refusal(Code::Unavailable, "DRAINING", message, &[], |details| {
        details.set_retry_info(Some(RETRY_AFTER));
    })
}

/// DATABASE_UNAVAILABLE.
pub fn database_unavailable() -> Status {
    let message =
        "the database does not answer in time: ask again; what was asked was done whole or not at all";
    refusal(Code::Unavailable, "DATABASE_UNAVAILABLE", message, &[], |details| {
        details.set_retry_info(Some(RETRY_AFTER));
    })
}

/// INTERNAL: a bug of ours, of which the caller learns nothing; `service` is the one whose log says more.
pub fn internal(service: &str) -> Status {
    let message = format!("an internal error: the log of {service} says more");
    refusal(Code::Internal, "INTERNAL", message, &[], |_| {})
}

/// OVERLOADED: more calls than `what` works on at a time.
pub fn overloaded(what: &str, limit: usize) -> Status {
    let message =
        format!("this {what} already works on {limit} calls, its limit: ask again later, or another one");
    refusal(Code::ResourceExhausted, "OVERLOADED", message, &[], |details| {
        details.set_retry_info(Some(RETRY_AFTER));
        details.add_quota_failure_violation("calls", format!("at most {limit} at a time"));
    })
}

/// The errors that tonic makes before a request reaches us, in our own words; ours pass as they are.
pub fn with_reason(status: Status) -> Status {
    if !status.details().is_empty() {
        return status;
    }
    match status.code() {
        // "decoded message length too large: found 100012 bytes, the limit is: 65536 bytes"
        Code::OutOfRange => {
            let message = format!("the request is too large: {}", status.message());
            refusal(Code::ResourceExhausted, "MESSAGE_TOO_LARGE", message, &[], |_| {})
        }
        // What does not decode, a text that is not UTF-8 for example, is the caller's error and no bug of ours.
        Code::Internal => {
            let message = format!("the request cannot be read: {}", status.message());
            refusal(Code::InvalidArgument, "INVALID_REQUEST", message, &[], |_| {})
        }
        _ => status,
    }
}
