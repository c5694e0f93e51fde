//! What can go wrong, how it is told, and the exit code it ends in.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::broken::{innermost, tls_problem};
use crate::output::{Output, complain};
use crate::table::printable;

/// For `--help`; [`Failure::exit_code`] is the other half. clap itself ends with 2.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed
  2  wrong usage
  3  not found
  4  refused as it stands: something in it is wrong, taken, or too late
  5  unavailable, or no answer in time: the same again may succeed";

/// Why a command ends without having done its work.
#[derive(Debug)]
pub enum Failure {
    /// A server answered with an error, or the connection broke in the middle.
    Rpc { status: Box<Status>, url: String },
    /// No connection.
    Unreachable { message: String },
    /// No answer within `--timeout`.
    TimedOut { what: String, url: String, after: Duration },
    /// Rows of an import were not taken; which ones has been said.
    RowsRefused { rows: u64 },
    /// It cannot be done as things stand; the message says what to do.
    Refused { message: String },
    /// Nobody reads our output any more (`| head`): nothing to do, and nothing to say.
    StdoutClosed,
    /// Everything else.
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    /// One of ours that went through `anyhow` on its way keeps its exit code.
    fn from(error: anyhow::Error) -> Self {
        error.downcast().unwrap_or_else(Self::Other)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message())
    }
}

impl std::error::Error for Failure {}

impl Failure {
    pub fn rpc(status: Status, url: &str) -> Self {
        Self::Rpc { status: Box::new(status), url: url.to_owned() }
    }

    pub fn from_stdout(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::StdoutClosed,
            _ => Self::Other(anyhow::Error::new(error).context("the output could not be written")),
        }
    }

    /// Whether the same call may succeed in a moment.
    pub fn is_unavailable(&self) -> bool {
        self.exit() == Exit::Unavailable
    }

    /// How long the server asks us to wait before the next call.
    pub fn retry_delay(&self) -> Option<Duration> {
        match self {
            Self::Rpc { status, .. } => status.get_details_retry_info()?.retry_delay,
            _ => None,
        }
    }

    /// One line on what happened, without details.
    pub fn message(&self) -> String {
        match self {
            Self::Rpc { status, url } if from_server(status) => match status.message() {
                "" if status.code() == tonic::Code::Unimplemented => {
                    format!("{url} does not offer this call: is it the address of the other service?")
                }
                "" => format!("{url} answered {}", status.code()),
                // The words of tonic for an answer that is HTTP and not gRPC.
                other if other.starts_with("grpc-status header missing") => {
                    format!("what listens at {url} does not speak gRPC ({other}): is it the right port?")
                }
                message => printable(message),
            },
            Self::Rpc { status, url } => {
                let because = tls_problem(&**status).map_or_else(|| innermost(&**status), str::to_owned);
                // What a server with TLS makes of a client without it.
                let hint = if url.starts_with("http://") && because.ends_with("broken pipe") {
                    "; if it speaks TLS, give its address with https://"
                } else {
                    ""
                };
                format!("the call to {url} broke: {because}{hint}")
            }
            Self::Unreachable { message } | Self::Refused { message } => message.clone(),
            Self::TimedOut { what, url, after } => format!(
                "{url} did not {what} within {} s: ask again, or allow more with --timeout",
                after.as_secs_f64()
            ),
            Self::RowsRefused { rows: 1 } => "1 row was not taken".to_owned(),
            Self::RowsRefused { rows } => format!("{rows} rows were not taken"),
            Self::StdoutClosed => "the reader of the output is gone".to_owned(),
            Self::Other(error) => format!("{error:#}"),
        }
    }

    /// Tells it on stderr.
    pub fn report(&self, output: Output) {
        if matches!(self, Self::StdoutClosed) {
            return;
        }
        if output.json {
            complain(&json!({ "error": self.object() }).to_string());
            return;
        }
        complain(&format!("error: {}", self.message()));
        if let Some(details) = self.details() {
            for violation in details.bad_request().iter().flat_map(|bad| &bad.field_violations) {
                let line = format!("{}: {}", printable(&violation.field), printable(&violation.description));
                if line != self.message() {
                    complain(&format!("  {line}"));
                }
            }
        }
        if let Some(delay) = self.retry_delay() {
            complain(&format!("  try again in {} s", delay.as_secs_f64()));
        }
    }

    fn object(&self) -> Value {
        let mut object = json!({ "code": self.code(), "message": self.message() });
        if let Some(details) = self.details() {
            if let Some(info) = details.error_info() {
                object["reason"] = json!(info.reason);
                object["metadata"] = json!(info.metadata);
            }
            if let Some(bad) = details.bad_request() {
                let violation = |v: &tonic_types::FieldViolation| json!({ "field": v.field, "description": v.description });
                object["violations"] = bad.field_violations.iter().map(violation).collect();
            }
        }
        if let Some(delay) = self.retry_delay() {
            object["retry_after_seconds"] = json!(delay.as_secs_f64());
        }
        object
    }

    fn details(&self) -> Option<ErrorDetails> {
        match self {
            Self::Rpc { status, .. } => Some(status.get_error_details()),
            _ => None,
        }
    }

    /// The gRPC code as a word, also of what never came to a call.
    fn code(&self) -> &'static str {
        match self {
            Self::Rpc { status, .. } if !from_server(status) => code_word(Code::Unavailable),
            Self::Rpc { status, .. } => code_word(status.code()),
            Self::Unreachable { .. } => "unavailable",
            Self::TimedOut { .. } => "deadline_exceeded",
            Self::RowsRefused { .. } => "invalid_argument",
            Self::Refused { .. } => "failed_precondition",
            Self::StdoutClosed | Self::Other(_) => "failed",
        }
    }

    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit() as u8)
    }

    fn exit(&self) -> Exit {
        match self {
            // Broken on the way, whatever code tonic makes of that.
            Self::Rpc { status, .. } if !from_server(status) => Exit::Unavailable,
            Self::Rpc { status, .. } => match status.code() {
                Code::NotFound => Exit::NotFound,
                Code::InvalidArgument | Code::FailedPrecondition | Code::AlreadyExists => Exit::Refused,
                Code::Unavailable | Code::DeadlineExceeded => Exit::Unavailable,
                _ => Exit::Failed,
            },
            Self::Unreachable { .. } | Self::TimedOut { .. } => Exit::Unavailable,
            Self::RowsRefused { .. } | Self::Refused { .. } => Exit::Refused,
            Self::StdoutClosed => Exit::Done,
            Self::Other(_) => Exit::Failed,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Exit {
    Done = 0,
    Failed = 1,
    NotFound = 3,
    Refused = 4,
    Unavailable = 5,
}

/// A status that tonic made on our side has the cause beside it; one that came over the wire has none.
fn from_server(status: &Status) -> bool {
    std::error::Error::source(status).is_none()
}

fn code_word(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::Cancelled => "cancelled",
        Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Failure {
        let mut details = ErrorDetails::with_bad_request_violation("title", "has 2,000 bytes; at most 1,024");
        details.set_error_info("INVALID_REQUEST", "bongsu", [("fields".to_owned(), "1".to_owned())]);
        let status = Status::with_error_details(Code::InvalidArgument, "title is too long", details);
        Failure::rpc(status, "http://127.0.0.1:7070")
    }

    #[test]
    fn an_error_object_has_all_that_people_are_told() {
        let expected = json!({
            "code": "invalid_argument",
            "message": "title is too long",
            "reason": "INVALID_REQUEST",
            "metadata": { "fields": "1" },
            "violations": [{ "field": "title", "description": "has 2,000 bytes; at most 1,024" }],
        });
        assert_eq!(refused().object(), expected);
    }

    #[test]
    fn exit_codes_are_those_of_the_help() {
        let exit = |code| Failure::rpc(Status::new(code, ""), "").exit() as u8;
        assert_eq!(exit(Code::NotFound), 3);
        assert_eq!(
            [exit(Code::AlreadyExists), exit(Code::FailedPrecondition), refused().exit() as u8],
            [4, 4, 4]
        );
        assert_eq!([exit(Code::Unavailable), exit(Code::DeadlineExceeded)], [5, 5]);
        assert_eq!([exit(Code::Internal), exit(Code::ResourceExhausted)], [1, 1]);
        assert_eq!(Failure::from_stdout(io::ErrorKind::BrokenPipe.into()).exit() as u8, 0);
    }
}
