//! What a provider's answer means. Values, not errors: a 410 is an ordinary thing to hear.

use std::time::{Duration, SystemTime};

use time::OffsetDateTime;

/// A longer pause means as much as this one: no broadcast lives longer.
const LONGEST_RETRY_AFTER: Duration = bongsu_store::EXPIRY_RANGE.1;

/// The meaning of one call.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The provider took it.
    Accepted,
    /// The token is no longer registered, or was not at the moment that the provider names.
    Gone { since: Option<OffsetDateTime>, said: Said },
    /// Our request is wrong and will not get better; the device is fine.
    Rejected(Said),
    /// The token and we do not fit together (another app's, another environment's): of no use as long as that is so.
    Suspect(Said),
    /// Too many calls: not a failure of this delivery.
    SlowDown { whom: SlowDown, retry_after: Option<Duration>, said: Said },
    /// Anything that may be better next time, an answer that never came included.
    Trouble { trouble: Trouble, retry_after: Option<Duration>, said: Said },
}

impl Answer {
    /// How metrics and traces spell it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Gone { .. } => "gone",
            Self::Rejected(_) => "rejected",
            Self::Suspect(_) => "suspect",
            Self::SlowDown { .. } => "slow_down",
            Self::Trouble { .. } => "trouble",
        }
    }
}

/// Who is called too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowDown {
    /// The provider: none of its devices is called meanwhile.
    Provider,
    /// This device: others are none of its business.
    Device,
}

/// What kind of trouble: whose fault it may be, and whether the provider may have accepted all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// There was no connection, or the provider says that it did not look at the call: nothing was accepted. No device's
    /// fault.
    Unreachable,
    /// Our credentials were refused. No device's fault.
    Denied,
    /// The provider says that it failed.
    Failed,
    /// The request was sent, and no answer came, or one that a gateway gave in the provider's place: it may have been
    /// accepted.
    Unknown,
}

/// The provider's words, or ours where there were none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// An HTTP status, a provider's own code, or `timeout`, `connect`, `refused`, `broken`, …
    pub code: String,
    /// The beginning of the body.
    pub detail: String,
}

impl Said {
    pub fn new(code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { code: code.into(), detail: detail.into() }
    }
}

/// The meaning of an HTTP status at a generic webhook (design: the answer table).
///
/// 401 and 403 are trouble and not a rejection: credentials are ours to mend, and the devices can still be reached. So is a
/// redirect, which is never followed: it means that the configured URL is wrong. 502 and 504 come from a gateway that has
/// passed the request on, and does not know what became of it (RFC 9110, sections 15.6.3 and 15.6.5).
pub fn of_webhook(status: u16, retry_after: Option<Duration>, detail: String) -> Answer {
    let said = Said::new(status.to_string(), detail);
    let trouble = |trouble, said| Answer::Trouble { trouble, retry_after, said };
    match status {
        200..=299 => Answer::Accepted,
        410 => Answer::Gone { since: None, said },
        429 => Answer::SlowDown { whom: SlowDown::Provider, retry_after, said },
        401 | 403 => trouble(Trouble::Denied, said),
        408 | 300..=399 => trouble(Trouble::Failed, said),
        400..=499 => Answer::Rejected(said),
        502 | 504 => trouble(Trouble::Unknown, said),
        _ => trouble(Trouble::Failed, said),
    }
}

/// The pause that a `Retry-After` header asks for (RFC 9110, section 10.2.3): seconds, or a date. A date is compared with
/// the answer's own `Date`, where there is one, so that our clock need not be right.
pub fn retry_after(value: &str, date: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse::<u64>() {
        return Some(Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER));
    }
    let until = httpdate::parse_http_date(value.trim()).ok()?;
    let now = date.and_then(|d| httpdate::parse_http_date(d).ok()).unwrap_or_else(SystemTime::now);
    Some(until.duration_since(now).unwrap_or_default().min(LONGEST_RETRY_AFTER))
}

#[cfg(test)]
impl Answer {
    /// As the tables of docs/providers.md call it.
    pub(crate) fn outcome(&self) -> &'static str {
        match self {
            Self::Accepted => "sent",
            Self::Gone { .. } => "gone",
            Self::Rejected(_) => "rejected",
            Self::Suspect(_) => "suspect",
            Self::SlowDown { .. } => "slow down",
            Self::Trouble { trouble: Trouble::Denied, .. } => "denied",
            Self::Trouble { trouble: Trouble::Failed, .. } => "failed",
            Self::Trouble { trouble: Trouble::Unknown, .. } => "unknown",
            Self::Trouble { trouble: Trouble::Unreachable, .. } => "unreachable",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::documented;

    #[test]
    fn every_answer_of_a_webhook_means_what_the_documentation_says() {
        let mut statuses = 0;
        for row in documented::table("webhook") {
            let [answers, _, outcome] = &row[..] else { panic!("{row:?}") };
            for status in answers.split(", ").filter_map(|answer| answer.parse().ok()) {
                assert_eq!(of_webhook(status, None, String::new()).outcome(), outcome, "{status}");
                statuses += 1;
            }
        }
        assert!(statuses > 20, "{statuses}");
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_by_the_providers_own_clock() {
        assert_eq!(retry_after("120", None), Some(Duration::from_secs(120)));
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:50:07 GMT", date), Some(Duration::from_secs(30)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:00 GMT", date), Some(Duration::ZERO));
        let endless = [u64::MAX.to_string(), "Fri, 31 Dec 9999 23:59:59 GMT".to_owned()];
        assert!(endless.iter().all(|value| retry_after(value, date) == Some(LONGEST_RETRY_AFTER)));
        assert_eq!(retry_after("soon", date), None);
        assert_eq!(retry_after("-5", date), None);
    }
}
