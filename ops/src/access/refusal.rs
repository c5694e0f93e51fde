//! What is answered to whom a call is not allowed. Nobody learns more than what they lack.

use std::time::Duration;

use tonic::{Code, Status};

use super::caller::Role;
use crate::api::refusal;

/// TOKEN_MISSING: nothing says who calls.
pub(super) fn token_missing() -> Status {
    let message = "this call needs a token: send it as `authorization: Bearer TOKEN` (bongsu: --token-file or BONGSU_TOKEN)";
    refusal(Code::Unauthenticated, "TOKEN_MISSING", message, &[], |_| {})
}

/// TOKEN_UNKNOWN: what says who calls is nobody's.
pub(super) fn token_unknown() -> Status {
    let message = "the token stands for no client of this service, or not any more: ask whoever runs it for another one";
    refusal(Code::Unauthenticated, "TOKEN_UNKNOWN", message, &[], |_| {})
}

/// CERTIFICATE_UNKNOWN: the certificate is good, but no client's, and there is no token.
pub(super) fn certificate_unknown() -> Status {
    let message = "the client certificate stands for no client of this service, and there is no token: send one as \
                   `authorization: Bearer TOKEN`, or have the certificate's name put into the access file";
    refusal(Code::Unauthenticated, "CERTIFICATE_UNKNOWN", message, &[], |_| {})
}

/// ROLE_MISSING: it is known who calls, and that they may not.
pub(super) fn role_missing(needed: &[Role]) -> Status {
    let names: Vec<_> = needed.iter().map(ToString::to_string).collect();
    let message = match &names[..] {
        [one] => format!("this call needs the role {one}"),
        several => format!("this call needs one of the roles {}", several.join(", ")),
    };
    refusal(Code::PermissionDenied, "ROLE_MISSING", message, &[("roles", names.join(","))], |_| {})
}

/// CLIENT_RATE_EXCEEDED: more calls than this client is allowed.
pub(super) fn rate_exceeded(per_second: u32, wait: Duration) -> Status {
    let message = format!("this client may make {per_second} calls a second here: ask again later");
    refusal(Code::ResourceExhausted, "CLIENT_RATE_EXCEEDED", message, &[], |details| {
        details.set_retry_info(Some(wait));
        details.add_quota_failure_violation("requests_per_second", format!("at most {per_second} a second"));
    })
}

/// CLIENT_STREAMS_EXCEEDED: more streams than this client is allowed.
pub(super) fn streams_exceeded(limit: u32) -> Status {
    let message = format!("this client already has {limit} streams open here, its limit: end one first");
    refusal(Code::ResourceExhausted, "CLIENT_STREAMS_EXCEEDED", message, &[], |details| {
        details.set_retry_info(Some(crate::api::RETRY_AFTER));
        details.add_quota_failure_violation("streams", format!("at most {limit} at a time"));
    })
}

/// No such method, in the words that tonic has for it: none.
pub(super) fn unknown_method() -> Status {
    Status::unimplemented("")
}
