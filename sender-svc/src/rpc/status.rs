//! The one place that builds a `tonic::Status` of this service.

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
