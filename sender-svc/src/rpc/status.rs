//! The one place that builds a `tonic::Status` of this service.

use std::time::Duration;

use bongsu_ops::api::{self, Violations};
use bongsu_store::{BroadcastId, DeviceId, StoreError};
use tonic::{Code, Status};

pub fn invalid(violations: &Violations) -> Status {
    api::invalid(violations)
}

pub fn broadcast_not_found(id: BroadcastId) -> Status {
    api::broadcast_not_found(id.0)
}

/// DEVICE_NOT_FOUND.
pub fn device_not_found(id: Option<DeviceId>) -> Status {
    let which = id.map_or_else(String::new, |id| id.to_string());
    let message = format!("there is no device {which}");
    let metadata = [("device_id", which.clone())];
    api::refusal(Code::NotFound, "DEVICE_NOT_FOUND", message.clone(), &metadata, |details| {
        details.set_resource_info("bongsu.v1.Device", which, "", message);
    })
}

/// USER_NOT_FOUND: nothing was ever registered for them.
pub fn user_not_found(user: &str) -> Status {
    let message = format!("no device was ever registered for the user \"{user}\"");
    let metadata = [("user_id", user.to_owned())];
    api::refusal(Code::NotFound, "USER_NOT_FOUND", message.clone(), &metadata, |details| {
        details.set_resource_info("user", user, "", message);
    })
}

/// DELIVERIES_DROPPED: it had some.
pub fn deliveries_dropped(id: BroadcastId) -> Status {
    let message = format!(
        "the deliveries of broadcast {id} were dropped at the end of their retention; its counts and its dead letters are kept"
    );
    let metadata = [("broadcast_id", id.to_string())];
    api::refusal(Code::FailedPrecondition, "DELIVERIES_DROPPED", message.clone(), &metadata, |details| {
        details.add_precondition_failure_violation("RETENTION", format!("broadcasts/{id}"), message);
    })
}

pub fn draining() -> Status {
    api::draining("sender")
}

/// IDEMPOTENCY_KEY_REUSED: the replay's id stands for something else.
pub fn replay_id_reused(key: &str, existing: BroadcastId) -> Status {
    let message = format!(
        "replay_id \"{key}\" was used for broadcast {existing}, which is something else: nothing was stored; use a new \
         replay_id"
    );
    let metadata = [("broadcast_id", existing.to_string())];
    api::refusal(Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED", message.clone(), &metadata, |details| {
        details.set_resource_info("bongsu.v1.Broadcast", existing.to_string(), "", message);
    })
}

/// PROVIDER_NOT_FOUND: no provider of this name, but these.
pub fn provider_not_found(name: &str, configured: &[String]) -> Status {
    let names = configured.join(", ");
    let message = format!("there is no provider \"{name}\"; there are: {names}");
    let metadata = [("provider", name.to_owned()), ("configured", configured.join(","))];
    api::refusal(Code::NotFound, "PROVIDER_NOT_FOUND", message.clone(), &metadata, |details| {
        details.set_resource_info("bongsu.v1.Provider", name, "", message);
    })
}

/// PROVIDER_NOT_PARKED.
pub fn provider_not_parked(name: &str) -> Status {
    let message = format!("provider \"{name}\" is not parked: it is called already");
    let metadata = [("provider", name.to_owned())];
    api::refusal(Code::FailedPrecondition, "PROVIDER_NOT_PARKED", message.clone(), &metadata, |details| {
        details.add_precondition_failure_violation("PARKED", format!("providers/{name}"), message);
    })
}

/// TOO_MANY_WATCHERS.
pub fn too_many_watchers(limit: usize) -> Status {
    let message = format!(
        "this sender already serves {limit} status streams, its limit: ask another one, or GetStatus"
    );
    api::refusal(Code::ResourceExhausted, "TOO_MANY_WATCHERS", message, &[], |details| {
        details.set_retry_info(Some(api::RETRY_AFTER));
    })
}

/// What a failed store operation means to the caller. `doing` says in the log what failed.
pub fn from_store(error: &StoreError, doing: &str) -> Status {
    match error {
        StoreError::Unavailable(detail) | StoreError::TooSlow(detail) => {
            tracing::warn!(doing, detail, "a call failed because the database does not answer in time");
            api::database_unavailable()
        }
        StoreError::Data(_) | StoreError::Config(_) | StoreError::Schema(_) | StoreError::Bug(_) => {
            tracing::error!(doing, %error, "a call failed by a fault of ours");
            api::internal("sender-svc")
        }
    }
}

/// TOKEN_MISSING.
pub fn token_missing() -> Status {
    let message = "there is no token: give the user's in `authorization: Bearer TOKEN`";
    api::refusal(Code::Unauthenticated, "TOKEN_MISSING", message, &[], |_| {})
}

/// MESSAGE_TOO_LARGE, of the live channel's HTTP.
pub fn message_too_large(limit: usize) -> Status {
    let message = format!("the request is too large: {limit} bytes are the most");
    api::refusal(Code::ResourceExhausted, "MESSAGE_TOO_LARGE", message, &[], |_| {})
}

/// TOKEN_EXPIRED: in the course of a stream.
pub fn token_expired() -> Status {
    let message = "the token has expired: call again with a new one";
    api::refusal(Code::Unauthenticated, "TOKEN_EXPIRED", message, &[], |_| {})
}

/// TOO_SLOW.
pub fn too_slow() -> Status {
    let message = "the stream was not read for too long: subscribe again with the last event_id";
    api::refusal(Code::Aborted, "TOO_SLOW", message, &[], |_| {})
}

/// USER_CONNECTIONS_EXCEEDED.
pub fn user_connections_exceeded(limit: usize) -> Status {
    let message =
        format!("this user has {limit} streams here already, as many as one may have: end one, or use it");
    let metadata = [("limit", limit.to_string())];
    api::refusal(Code::ResourceExhausted, "USER_CONNECTIONS_EXCEEDED", message, &metadata, |details| {
        details.add_quota_failure_violation("connections of a user", format!("at most {limit} at a time"));
    })
}

/// CONNECTIONS_EXCEEDED.
pub fn connections_exceeded(limit: usize, retry: Duration) -> Status {
    let message =
        format!("this sender already has {limit} streams, its limit: ask again later, or another one");
    api::refusal(Code::ResourceExhausted, "CONNECTIONS_EXCEEDED", message, &[], |details| {
        details.set_retry_info(Some(retry));
        details.add_quota_failure_violation("connections", format!("at most {limit} at a time"));
    })
}

/// PATH_NOT_FOUND, of the live channel's HTTP.
pub fn path_not_found() -> Status {
    let message = "there is nothing at this path: docs/live.md says what there is";
    api::refusal(Code::NotFound, "PATH_NOT_FOUND", message, &[], |_| {})
}
