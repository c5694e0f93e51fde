//! Errors as Google's APIs tell them: a `google.rpc.Status` in JSON.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::message::Violation;
use crate::answer::{self, Answer};

const FCM_ERROR: &str = "type.googleapis.com/google.firebase.fcm.v1.FcmError";
const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";
const QUOTA_FAILURE: &str = "type.googleapis.com/google.rpc.QuotaFailure";

fn with_details(http: StatusCode, status: &str, message: &str, details: &[Value]) -> Answer {
    let mut error = json!({ "code": http.as_u16(), "message": message, "status": status });
    if !details.is_empty() {
        error["details"] = details.into();
    }
    answer::json_text(http, json!({ "error": error }).to_string())
}

/// An error that is not FCM's own.
pub(super) fn error(http: StatusCode, status: &str, message: &str) -> Answer {
    with_details(http, status, message, &[])
}

/// One of FCM's own.
pub(super) fn fcm_error(http: StatusCode, status: &str, code: &str, message: &str) -> Answer {
    with_details(http, status, message, &[json!({ "@type": FCM_ERROR, "errorCode": code })])
}

pub(super) fn quota_exceeded() -> Answer {
    let violation = json!({ "subject": "project", "description": "message rate exceeded" });
    let details = [
        json!({ "@type": FCM_ERROR, "errorCode": "QUOTA_EXCEEDED" }),
        json!({ "@type": QUOTA_FAILURE, "violations": [violation] }),
    ];
    with_details(StatusCode::TOO_MANY_REQUESTS, "RESOURCE_EXHAUSTED", "the quota is exceeded", &details)
}

/// The message is wrong in this field.
pub(super) fn bad_request(Violation { field, description }: &Violation) -> Answer {
    let violation = json!({ "field": field, "description": description });
    let details = [
        json!({ "@type": FCM_ERROR, "errorCode": "INVALID_ARGUMENT" }),
        json!({ "@type": BAD_REQUEST, "fieldViolations": [violation] }),
    ];
    with_details(StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", description, &details)
}
