//! Firebase Cloud Messaging, HTTP v1: `POST /v1/projects/{project}/messages:send`, as strict as the real one.

mod access;
mod message;
mod status;

use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

pub(crate) use access::{Access, key_file};

use crate::answer::{self, Answer};
use crate::decision::Verdict;
use crate::push::Push;
use crate::sim::Sim;

/// The only project that there is.
const PROJECT: &str = "bongsu-test";
const PROJECTS: &str = "/v1/projects/";

/// Whether a path is one of FCM's.
pub(crate) fn is_path(path: &str) -> bool {
    path.starts_with(PROJECTS)
}

/// Understands a message, or answers in FCM's words what is wrong with it.
pub(crate) fn read<'a>(sim: &Sim, parts: &Parts, body: &'a [u8]) -> Result<Push<'a>, Answer> {
    let path = parts.uri.path();
    let project = path.strip_prefix(PROJECTS).and_then(|path| path.strip_suffix("/messages:send"));
    // Google knows a method and a path only together.
    let Some(project) = project.filter(|_| parts.method == Method::POST) else {
        return Err(status::error(StatusCode::NOT_FOUND, "NOT_FOUND", "there is no such method"));
    };
    let token =
        parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if !token.is_some_and(|token| sim.fcm.is_good(token)) {
        let detail = "the request needs an access token, and one that has not ended";
        return Err(status::error(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", detail));
    }
    if project != PROJECT {
        let detail = format!("this service account may not send for {project}, or there is no such project");
        return Err(status::error(StatusCode::FORBIDDEN, "PERMISSION_DENIED", &detail));
    }
    let message = message::read(body).map_err(|violation| status::bad_request(&violation))?;
    if message.validate_only {
        return Err(answer::json_text(StatusCode::OK, accepted("fake_message_id")));
    }
    let key = format!("{}/{}", message.token, message.collapse_key);
    Ok(Push { key: key.into(), token: message.token })
}

fn accepted(id: &str) -> String {
    format!(r#"{{"name":"projects/{PROJECT}/messages/{id}"}}"#)
}

pub(crate) fn reply(verdict: Verdict, number: u64) -> Answer {
    match verdict {
        Verdict::Accepted | Verdict::Duplicate | Verdict::Suppressed => {
            answer::json_text(StatusCode::OK, accepted(&number.to_string()))
        }
        Verdict::Unregistered => status::fcm_error(
            StatusCode::NOT_FOUND,
            "NOT_FOUND",
            "UNREGISTERED",
            "the token is not registered",
        ),
        Verdict::Rejected => status::fcm_error(
            StatusCode::BAD_REQUEST,
            "INVALID_ARGUMENT",
            "INVALID_ARGUMENT",
            "the token is no registration token",
        ),
        Verdict::Mismatched => status::fcm_error(
            StatusCode::FORBIDDEN,
            "PERMISSION_DENIED",
            "SENDER_ID_MISMATCH",
            "the token is another sender's",
        ),
        Verdict::Throttled => status::quota_exceeded(),
        Verdict::Transient | Verdict::Failing | Verdict::Outage | Verdict::Hung => status::fcm_error(
            StatusCode::SERVICE_UNAVAILABLE,
            "UNAVAILABLE",
            "UNAVAILABLE",
            "the service is unavailable",
        ),
        // Whatever its status: as a server on the way says it, not FCM.
        Verdict::Overridden => answer::json_text(StatusCode::OK, "{}"),
    }
}
