//! A refusal as HTTP tells it: the same reason and words as over gRPC.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bongsu_ops::api::Violations;
use serde_json::json;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::http::REQUEST_BYTES;
use crate::rpc::status;

/// Answers with what the status says.
pub fn answer(status: &Status) -> Response {
    let reason = status.get_details_error_info().map(|info| info.reason).unwrap_or_default();
    let retry = status.get_details_retry_info().and_then(|info| info.retry_delay);
    let error =
        json!({"error": {"status": name(status.code()), "reason": reason, "message": status.message()}});
    let mut response = (http_status(status.code(), &reason), Json(error)).into_response();
    if let Some(retry) = retry {
        // In whole seconds, and never sooner.
        let seconds = retry.as_secs() + u64::from(retry.subsec_nanos() > 0);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The body of a request, or what to answer where it could not be taken.
pub fn body(body: Result<Bytes, BytesRejection>) -> Result<Bytes, Box<Response>> {
    body.map_err(|rejected| {
        Box::new(if rejected.status() == StatusCode::PAYLOAD_TOO_LARGE {
            let mut answer = answer(&status::message_too_large(REQUEST_BYTES));
            *answer.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
            answer
        } else {
            answer(&status::invalid(&Violations::one("body", rejected.body_text())))
        })
    })
}

/// What is wrong with a query that cannot be read.
pub fn query(rejected: &QueryRejection) -> Status {
    status::invalid(&Violations::one("query", rejected.body_text()))
}

fn http_status(code: Code, reason: &str) -> StatusCode {
    match code {
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        // The process is full, not this user's share of it.
        Code::ResourceExhausted if reason == "CONNECTIONS_EXCEEDED" => StatusCode::SERVICE_UNAVAILABLE,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// As google.rpc.Code spells those that we use.
fn name(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::Unauthenticated => "UNAUTHENTICATED",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::NotFound => "NOT_FOUND",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::Unavailable => "UNAVAILABLE",
        _ => "INTERNAL",
    }
}
