//! What is answered to whom we do not let in, over HTTP and over gRPC.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use bongsu_ops::api;
use serde_json::json;
use tonic::{Code, Status};

/// Why a request is not let in. Nothing of it holds what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Nothing says who calls.
    Missing,
    /// What says so is not to be believed, and why.
    Invalid(&'static str),
    /// It was to be believed until some time ago.
    Expired,
    /// A ticket that was not used in time.
    TicketExpired,
    /// A page of somebody else's sends the user's cookie.
    ForeignOrigin,
}

impl Refused {
    /// As errors name it, and a metric may.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing => "TOKEN_MISSING",
            Self::Invalid(_) => "TOKEN_INVALID",
            Self::Expired | Self::TicketExpired => "TOKEN_EXPIRED",
            Self::ForeignOrigin => "ORIGIN_NOT_ALLOWED",
        }
    }

    fn message(self) -> String {
        match self {
            Self::Missing => {
                "this call needs the user's token: send it as `Authorization: Bearer TOKEN`".to_owned()
            }
            Self::Invalid(why) => format!("the token is not valid: {why}; ask the app's own server for another one"),
            Self::Expired => "the token has expired: ask the app's own server for a new one".to_owned(),
            Self::TicketExpired => {
                "the ticket has expired: POST /v1/live/ticket gives a new one, and use it at once".to_owned()
            }
            Self::ForeignOrigin => {
                "pages of this origin may not use the live channel with the user's cookie: have the origin allowed \
                 (--live-allow-origin)"
                    .to_owned()
            }
        }
    }

    fn code(self) -> Code {
        match self {
            Self::ForeignOrigin => Code::PermissionDenied,
            _ => Code::Unauthenticated,
        }
    }

    /// For a gRPC client.
    pub fn into_status(self) -> Status {
        api::refusal(self.code(), self.reason(), self.message(), &[], |_| {})
    }

    /// For everybody else.
    pub fn into_response(self) -> Response<Body> {
        let (status, name) = match self {
            Self::ForeignOrigin => (StatusCode::FORBIDDEN, "PERMISSION_DENIED"),
            _ => (StatusCode::UNAUTHORIZED, "UNAUTHENTICATED"),
        };
        let error = json!({ "status": name, "reason": self.reason(), "message": self.message() });
        let mut response = Response::new(Body::from(json!({ "error": error }).to_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // RFC 6750, section 3: an error only where there was a token.
        let challenge = match self {
            Self::Missing => Some("Bearer realm=\"bongsu\""),
            Self::ForeignOrigin => None,
            _ => Some("Bearer realm=\"bongsu\", error=\"invalid_token\""),
        };
        if let Some(challenge) = challenge {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}
