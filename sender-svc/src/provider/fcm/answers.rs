//! What FCM's answers mean: <https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode>, in the form of a
//! `google.rpc.Status`. docs/providers.md has it as a table, which a test compares with this.

use std::time::Duration;

use serde::Deserialize;

use super::super::answer::{Answer, Said, SlowDown, Trouble};

/// How long Google asks everybody to wait after a 429 that names no time.
const UNNAMED_PAUSE: Duration = Duration::from_secs(60);

#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    error: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    status: String,
    message: String,
    details: Vec<Detail>,
}

/// The fields of all kinds of detail that matter here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Detail {
    #[serde(rename = "@type")]
    kind: String,
    #[serde(rename = "errorCode")]
    error_code: String,
    /// Which quota was exceeded.
    violations: Vec<Violation>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Violation {
    subject: String,
    description: String,
}

impl Status {
    /// FCM's own code, where it gave one.
    fn error_code(&self) -> Option<&str> {
        let of_fcm = |detail: &&Detail| detail.kind.ends_with("google.firebase.fcm.v1.FcmError");
        self.details.iter().find(of_fcm).map(|detail| &*detail.error_code).filter(|code| !code.is_empty())
    }

    /// Whether the quota is that of the device alone. FCM has one for each, and names it in words only.
    fn is_about_the_device(&self) -> bool {
        let violations = self.details.iter().flat_map(|detail| &detail.violations);
        let words = violations.flat_map(|violation| [&violation.subject, &violation.description]);
        // At the beginning: a project may have the word in its name.
        words.chain([&self.message]).any(|text| text.to_ascii_lowercase().starts_with("device"))
    }

    fn into_said(self, http_status: u16, body: &[u8]) -> Said {
        let code = match (self.error_code(), &*self.status) {
            (Some(code), _) => code.to_owned(),
            (None, "") => http_status.to_string(),
            (None, status) => status.to_owned(),
        };
        let detail =
            if self.message.is_empty() { String::from_utf8_lossy(body).into_owned() } else { self.message };
        Said { code, detail }
    }
}

/// The meaning of an answer.
///
/// Only FCM's own words say something of the device: a 404 without them is a wrong URL, a 403 a project that we may not
/// send for. Those are ours to mend, and no device is lost by them.
pub(super) fn of_fcm(http_status: u16, retry_after: Option<Duration>, body: &[u8]) -> Answer {
    if (200..=299).contains(&http_status) {
        return Answer::Accepted;
    }
    let status = serde_json::from_slice::<Body>(body).unwrap_or_default().error;
    let trouble = |trouble, said| Answer::Trouble { trouble, retry_after, said };
    let slow_down =
        |whom, said| Answer::SlowDown { whom, retry_after: Some(retry_after.unwrap_or(UNNAMED_PAUSE)), said };
    let whom = if status.is_about_the_device() { SlowDown::Device } else { SlowDown::Provider };
    let code = status.error_code().unwrap_or_default().to_owned();
    let said = status.into_said(http_status, body);
    match (http_status, &*code) {
        (404, "UNREGISTERED") => Answer::Gone { since: None, said },
        (403, "SENDER_ID_MISMATCH") => Answer::Suspect(said),
        (429, _) => slow_down(whom, said),
        (401 | 403 | 404, _) => trouble(Trouble::Denied, said),
        (408 | 300..=399, _) => trouble(Trouble::Failed, said),
        (400..=499, _) => Answer::Rejected(said),
        // A gateway passed it on, and does not know what became of it.
        (502 | 504, "") => trouble(Trouble::Unknown, said),
        _ => trouble(Trouble::Failed, said),
    }
}

/// Whether it is our access token that was not taken. What a third party (APNs, a browser's push service) does not take is
/// a setting of the project, and no new token helps.
pub(super) fn refuses_the_token(http_status: u16, answer: &Answer) -> bool {
    let of_others = matches!(answer, Answer::Trouble { said, .. } if said.code == "THIRD_PARTY_AUTH_ERROR");
    http_status == 401 && !of_others
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::documented;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn error(code: u16, status: &str, message: &str, details: &Value) -> Vec<u8> {
        json!({ "error": { "code": code, "message": message, "status": status, "details": details } })
            .to_string()
            .into_bytes()
    }

    fn fcm_error(code: &str) -> Value {
        json!([{ "@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code }])
    }

    fn quota(description: &str) -> Value {
        json!([
            { "@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": "QUOTA_EXCEEDED" },
            {
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{ "subject": "", "description": description }],
            },
        ])
    }

    /// As a row of the documentation names an answer: a status, FCM's code or a word for its absence.
    fn documented_answer(named: &str) -> Answer {
        let (status, code) = named.split_once(' ').unwrap_or((named, ""));
        let status: u16 = status.parse().expect("a row begins with an HTTP status");
        match code {
            "" => of_fcm(status, None, b"<html></html>"),
            "QUOTA_EXCEEDED" => of_fcm(status, None, &error(status, "RESOURCE_EXHAUSTED", "", &quota(""))),
            code => of_fcm(status, None, &error(status, "SOME_STATUS", "", &fcm_error(code))),
        }
    }

    #[test]
    fn every_documented_answer_has_the_outcome_that_the_documentation_says() {
        let rows = documented::table("fcm");
        assert!(rows.len() >= 9, "{rows:?}");
        for row in &rows {
            assert_eq!(documented_answer(&row[0]).outcome(), row[2], "{}", row[0]);
        }
        let codes = [
            "UNSPECIFIED_ERROR",
            "INVALID_ARGUMENT",
            "UNREGISTERED",
            "SENDER_ID_MISMATCH",
            "QUOTA_EXCEEDED",
            "UNAVAILABLE",
            "INTERNAL",
            "THIRD_PARTY_AUTH_ERROR",
        ];
        for code in codes {
            assert!(rows.iter().any(|row| row[0].ends_with(code)), "{code} is not documented");
        }
    }

    #[test]
    fn what_is_kept_is_fcms_code_and_message_and_without_them_what_there_is() {
        let body = error(404, "NOT_FOUND", "Requested entity was not found.", &fcm_error("UNREGISTERED"));
        let said = Said::new("UNREGISTERED", "Requested entity was not found.");
        assert_eq!(of_fcm(404, None, &body), Answer::Gone { since: None, said });
        let denied = |code, detail| Answer::Trouble {
            trouble: Trouble::Denied,
            retry_after: None,
            said: Said::new(code, detail),
        };
        assert_eq!(of_fcm(404, None, b"<html>"), denied("404", "<html>"));
        let wrong_project = error(403, "PERMISSION_DENIED", "no such project", &json!([]));
        assert_eq!(of_fcm(403, None, &wrong_project), denied("PERMISSION_DENIED", "no such project"));
    }

    #[test]
    fn a_pause_is_as_long_as_asked_or_a_minute_and_only_a_devices_own_quota_is_the_devices() {
        let pause = |message: &str, description: &str, retry_after| {
            let body = error(429, "RESOURCE_EXHAUSTED", message, &quota(description));
            match of_fcm(429, retry_after, &body) {
                Answer::SlowDown { whom, retry_after, .. } => (whom, retry_after),
                other => panic!("{other:?}"),
            }
        };
        let provider = SlowDown::Provider;
        assert_eq!(pause("Quota exceeded for 'Send requests'", "", None), (provider, Some(60 * SECOND)));
        assert_eq!(pause("", "", Some(7 * SECOND)), (provider, Some(7 * SECOND)));
        assert_eq!(pause("Quota exceeded for projects/my-devices", "", None).0, provider);
        assert_eq!(pause("", "Device message rate exceeded", None).0, SlowDown::Device);
        assert_eq!(pause("Device quota exceeded.", "", None).0, SlowDown::Device);
    }

    #[test]
    fn only_a_401_about_our_own_token_calls_for_another_one() {
        for (status, code, ours) in [
            (401, "", true),
            (401, "UNSPECIFIED_ERROR", true),
            (401, "THIRD_PARTY_AUTH_ERROR", false),
            (403, "", false),
        ] {
            let answer = of_fcm(status, None, &error(status, "UNAUTHENTICATED", "", &fcm_error(code)));
            assert_eq!(refuses_the_token(status, &answer), ours, "{status} {code}");
        }
    }
}
