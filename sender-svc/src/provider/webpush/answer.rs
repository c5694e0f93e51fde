//! What a push service's answer means.

use std::time::Duration;

use crate::provider::answer::{Answer, Said, SlowDown, Trouble};

/// The meaning of an HTTP status (RFC 8030, sections 5 and 8.4; RFC 8292, section 4; docs/providers.md has the table).
///
/// 404 and 410 both say that the subscription is no more: push services differ in which they use. A 429 is one push service's
/// of many, so it holds this device and not the provider.
pub(super) fn of(status: u16, retry_after: Option<Duration>, detail: String) -> Answer {
    let said = Said::new(status.to_string(), detail);
    let trouble = |trouble, said| Answer::Trouble { trouble, retry_after, said };
    match status {
        200..=299 => Answer::Accepted,
        404 | 410 => Answer::Gone { since: None, said },
        429 => Answer::SlowDown { whom: SlowDown::Device, retry_after, said },
        401 | 403 => trouble(Trouble::Denied, said),
        408 | 300..=399 => trouble(Trouble::Failed, said),
        400..=499 => Answer::Rejected(said),
        // Of a gateway, which does not know what became of the request (RFC 9110, sections 15.6.3 and 15.6.5).
        502 | 504 => trouble(Trouble::Unknown, said),
        _ => trouble(Trouble::Failed, said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::documented;

    #[test]
    fn every_answer_means_what_the_documentation_says() {
        let mut statuses = 0;
        for row in documented::table("webpush") {
            let [answers, _, outcome] = &row[..] else { panic!("{row:?}") };
            for status in answers.split(", ").filter_map(|answer| answer.parse().ok()) {
                assert_eq!(of(status, None, String::new()).outcome(), outcome, "{status}");
                statuses += 1;
            }
        }
        assert!(statuses > 20, "{statuses}");
    }

    #[test]
    fn one_push_services_wish_for_a_pause_holds_no_other() {
        let pause = Some(Duration::from_secs(7));
        let answer = of(429, pause, String::new());
        assert!(
            matches!(answer, Answer::SlowDown { whom: SlowDown::Device, retry_after, .. } if retry_after == pause)
        );
    }
}
