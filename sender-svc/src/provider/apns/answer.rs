//! What APNs means by a failure ("Handling notification responses from APNs"). docs/providers.md has the same as a table, and a
//! test compares the two.

use std::time::Duration;

use serde::Deserialize;
use time::OffsetDateTime;

use crate::provider::answer::{Said, SlowDown};
use crate::provider::{Answer, Trouble};

/// Where tokens change too often and no other one helps, that lasts for minutes.
const TOO_MANY_TOKENS_PAUSE: Duration = Duration::from_secs(60);
/// The code where we did not ask Apple.
const NO_DEVICE_TOKEN: &str = "token";

/// The body of a failure; empty where it is none of Apple's.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Failure {
    pub reason: String,
    /// With a 410: since when the token has been of no use, in milliseconds since 1970.
    timestamp: Option<i64>,
}

/// A kind of answer, without what only this one says.
enum Meaning {
    Gone,
    Rejected,
    Suspect,
    SlowDown(SlowDown),
    Trouble(Trouble),
}

/// A device that was registered with something else than a token of APNs.
pub(super) fn no_device_token() -> Answer {
    Answer::Suspect(Said::new(
        NO_DEVICE_TOKEN,
        "not a device token in hexadecimal digits: APNs was not called",
    ))
}

impl Failure {
    pub fn parse(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// What this means, beside an HTTP status that is not 200.
    pub fn meaning(self, status: u16, retry_after: Option<Duration>) -> Answer {
        let (meaning, words) = by_reason(status, &self.reason).unwrap_or_else(|| by_status(status));
        let retry_after = match &*self.reason {
            "TooManyProviderTokenUpdates" => retry_after.or(Some(TOO_MANY_TOKENS_PAUSE)),
            _ => retry_after,
        };
        let code = if self.reason.is_empty() { status.to_string() } else { self.reason };
        let said = Said::new(code, words);
        match meaning {
            Meaning::Gone => Answer::Gone { since: self.timestamp.and_then(moment), said },
            Meaning::Rejected => Answer::Rejected(said),
            Meaning::Suspect => Answer::Suspect(said),
            Meaning::SlowDown(whom) => Answer::SlowDown { whom, retry_after, said },
            Meaning::Trouble(trouble) => Answer::Trouble { trouble, retry_after, said },
        }
    }
}

fn moment(unix_ms: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(unix_ms) * 1_000_000).ok()
}

/// The reasons that Apple documents.
///
/// A token of another environment or app is suspect and never gone: one wrong line in a configuration would take every device.
/// What a whole configuration gets wrong is denied, so that no delivery is lost to it.
fn by_reason(status: u16, reason: &str) -> Option<(Meaning, &'static str)> {
    use Meaning::{Gone, Rejected, Suspect};
    let denied = Meaning::Trouble(Trouble::Denied);
    let failed = Meaning::Trouble(Trouble::Failed);
    Some(match (status, reason) {
        (410, "Unregistered") => (Gone, "the app is no longer on the device, or takes no notifications"),
        (410, "ExpiredToken") => (Gone, "the device token has expired"),
        (_, "BadDeviceToken") => (Suspect, "no device token of this environment"),
        (_, "DeviceTokenNotForTopic") => (Suspect, "the device token belongs to another app"),
        (_, "MissingDeviceToken") => (Rejected, "the path has no device token"),
        (_, "BadCollapseId") => (Rejected, "apns-collapse-id is too long"),
        (_, "BadExpirationDate") => (Rejected, "apns-expiration is no time"),
        (_, "BadMessageId") => (Rejected, "apns-id is no UUID"),
        (_, "BadPriority") => (Rejected, "apns-priority is none there is"),
        (_, "DuplicateHeaders") => (Rejected, "a header came twice"),
        (_, "InvalidPushType") => (Rejected, "apns-push-type is none there is"),
        (_, "PayloadEmpty") => (Rejected, "there was no payload"),
        (_, "PayloadTooLarge") => (Rejected, "the payload is too large"),
        (_, "BadTopic") => (denied, "the topic is none there is: see the setting"),
        (_, "MissingTopic") => (denied, "there was no topic: see the setting"),
        (_, "TopicDisallowed") => (denied, "the topic is not allowed to us: see the setting"),
        (_, "BadCertificate") => (denied, "the certificate is bad"),
        (_, "BadCertificateEnvironment") => (denied, "the certificate is for the other environment"),
        (_, "BadEnvironmentKeyIdInToken") => (denied, "the key is not for this environment"),
        (_, "UnrelatedKeyIdInToken") => (denied, "the key has nothing to do with this topic"),
        (_, "ExpiredProviderToken") => (denied, "our token is too old: is the clock right?"),
        (_, "InvalidProviderToken") => (denied, "our token is not believed: see key, key_id and team_id"),
        (_, "MissingProviderToken") => (denied, "there was no token of ours"),
        (_, "Forbidden") => (denied, "this is not allowed to us"),
        (_, "BadPath") => (denied, "the path is none there is: see the endpoint"),
        (_, "MethodNotAllowed") => (denied, "the method is not POST: see the endpoint"),
        (_, "TooManyRequests") => (Meaning::SlowDown(SlowDown::Device), "too many for this device"),
        (_, "TooManyProviderTokenUpdates") => {
            (Meaning::SlowDown(SlowDown::Provider), "somebody else signs tokens with this key, too")
        }
        (_, "IdleTimeout") => (failed, "the request came too slowly"),
        (_, "InternalServerError") => (failed, "APNs failed"),
        (_, "ServiceUnavailable") => (failed, "APNs is not available"),
        (_, "Shutdown") => (failed, "the server of APNs is shutting down"),
        _ => return None,
    })
}

/// A reason that is new, or none at all: as a proxy in between would answer. No device is retired for that.
fn by_status(status: u16) -> (Meaning, &'static str) {
    match status {
        410 => (Meaning::Suspect, "no reason that we know"),
        429 => (Meaning::SlowDown(SlowDown::Provider), "too many calls"),
        401 | 403 | 404 | 405 => (Meaning::Trouble(Trouble::Denied), "refused, for no reason that we know"),
        408 | 300..=399 => (Meaning::Trouble(Trouble::Failed), "not answered by APNs"),
        400..=499 => (Meaning::Rejected, "refused, for no reason that we know"),
        // A gateway passed it on, and does not know what became of it (RFC 9110, sections 15.6.3 and 15.6.5).
        502 | 504 => (Meaning::Trouble(Trouble::Unknown), "answered by a gateway"),
        _ => (Meaning::Trouble(Trouble::Failed), "failed, for no reason that we know"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::documented;

    /// The error codes in Apple's "Handling notification responses from APNs".
    const DOCUMENTED: [(u16, &str); 33] = [
        (400, "BadCollapseId"),
        (400, "BadDeviceToken"),
        (400, "BadExpirationDate"),
        (400, "BadMessageId"),
        (400, "BadPriority"),
        (400, "BadTopic"),
        (400, "DeviceTokenNotForTopic"),
        (400, "DuplicateHeaders"),
        (400, "IdleTimeout"),
        (400, "InvalidPushType"),
        (400, "MissingDeviceToken"),
        (400, "MissingTopic"),
        (400, "PayloadEmpty"),
        (400, "TopicDisallowed"),
        (403, "BadCertificate"),
        (403, "BadCertificateEnvironment"),
        (403, "BadEnvironmentKeyIdInToken"),
        (403, "ExpiredProviderToken"),
        (403, "Forbidden"),
        (403, "InvalidProviderToken"),
        (403, "MissingProviderToken"),
        (403, "UnrelatedKeyIdInToken"),
        (404, "BadPath"),
        (405, "MethodNotAllowed"),
        (410, "ExpiredToken"),
        (410, "Unregistered"),
        (413, "PayloadTooLarge"),
        (429, "TooManyProviderTokenUpdates"),
        (429, "TooManyRequests"),
        (500, "InternalServerError"),
        (503, "ServiceUnavailable"),
        (503, "Shutdown"),
        (200, ""),
    ];

    fn answer(status: u16, reason: &str) -> Answer {
        if status == 200 {
            return Answer::Accepted;
        }
        let body = serde_json::json!({ "reason": reason, "timestamp": 1_454_948_015_990_i64 }).to_string();
        Failure::parse(body.as_bytes()).meaning(status, Some(Duration::from_secs(7)))
    }

    #[test]
    fn every_reason_that_apple_documents_means_what_our_documentation_says() {
        let mut told = vec![];
        for row in documented::table("apns") {
            let [said, _, expected] = &*row else { panic!("three cells: {row:?}") };
            let (status, reason) = said.split_once(' ').unwrap_or((said, ""));
            for status in status.split('/').map(|status| status.parse().expect("a status")) {
                assert_eq!(answer(status, reason).outcome(), expected, "{said}");
                told.push((status, reason.to_owned()));
            }
        }
        for (status, reason) in DOCUMENTED {
            assert!(
                told.contains(&(status, reason.to_owned())),
                "{status} {reason} is not in docs/providers.md"
            );
        }
    }

    #[test]
    fn a_documented_reason_is_the_code_and_our_words_are_the_detail() {
        for (status, reason) in DOCUMENTED.into_iter().filter(|(status, _)| *status != 200) {
            let (Answer::Gone { said, .. }
            | Answer::Rejected(said)
            | Answer::Suspect(said)
            | Answer::SlowDown { said, .. }
            | Answer::Trouble { said, .. }) = answer(status, reason)
            else {
                panic!("{status} {reason} is no acceptance")
            };
            assert_eq!(said.code, reason);
            assert!(!said.detail.contains("no reason that we know"), "{reason}: {}", said.detail);
        }
    }

    #[test]
    fn a_gone_device_is_gone_since_apples_timestamp_in_milliseconds() {
        let Answer::Gone { since: Some(since), .. } = answer(410, "Unregistered") else { panic!("gone") };
        assert_eq!(since.unix_timestamp_nanos(), 1_454_948_015_990_000_000);
        let without = Failure::parse(br#"{"reason":"Unregistered"}"#).meaning(410, None);
        assert!(matches!(without, Answer::Gone { since: None, .. }));
    }

    #[test]
    fn a_device_is_gone_for_apples_reasons_and_for_nothing_else() {
        for status in 300..=599 {
            for reason in ["", "Surprise", "BadDeviceToken", "DeviceTokenNotForTopic", "InvalidProviderToken"]
            {
                assert_ne!(answer(status, reason).outcome(), "gone", "{status} {reason}");
            }
        }
        let page = Failure::parse(b"<html>410 Gone</html>").meaning(410, None);
        assert_eq!(page, Answer::Suspect(Said::new("410", "no reason that we know")));
    }

    #[test]
    fn a_pause_that_apple_asks_for_is_kept_and_said_for_whom() {
        let pause = Some(Duration::from_secs(7));
        assert!(matches!(answer(429, "TooManyRequests"),
            Answer::SlowDown { whom: SlowDown::Device, retry_after, .. } if retry_after == pause));
        assert!(matches!(answer(429, "TooManyProviderTokenUpdates"),
            Answer::SlowDown { whom: SlowDown::Provider, retry_after, .. } if retry_after == pause));
        assert!(
            matches!(answer(503, "Shutdown"), Answer::Trouble { retry_after, .. } if retry_after == pause)
        );
    }
}
