//! From a provider's answer to a verdict: pure, so that what a retry waits for can be read and tested in one place.

use std::time::Duration;

use bongsu_store::{DeadReason, Verdict};

use crate::provider::answer::Said;
use crate::provider::{Answer, Trouble};

/// How often, and how far apart, a provider's deliveries are tried.
#[derive(Debug, Clone, PartialEq)]
pub struct RetrySchedule {
    /// Before the second attempt.
    pub initial: Duration,
    /// Each further delay is this many times the one before.
    pub factor: f64,
    /// No delay is shorter, whatever the schedule says: what the provider asks of everybody.
    pub floor: Duration,
    /// Attempts that may fail before the delivery is dead; at least 1.
    pub max_attempts: i32,
}

impl RetrySchedule {
    /// The delay after the given number of failures, from 1.
    fn delay(&self, failures: i32) -> Duration {
        self.initial.mul_f64(self.factor.powi((failures - 1).max(0))).max(self.floor)
    }
}

/// What a verdict depends on beside the answer.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Earlier calls that failed and count.
    pub failures: i32,
    /// Whether a failure now counts: not while the provider fails as a whole.
    pub charged: bool,
    /// Whether a delivery that may have been accepted must not be called again.
    pub at_most_once: bool,
    /// Whether the provider is not believed that tokens are of no use.
    pub doubted: bool,
}

/// What becomes of a delivery whose present call was answered with `answer`.
pub fn judge(answer: Answer, case: Case, schedule: &RetrySchedule) -> Verdict {
    let Case { failures, charged, at_most_once, doubted } = case;
    match answer {
        Answer::Accepted => Verdict::Sent,
        Answer::Gone { said, .. } | Answer::Suspect(said) if doubted => {
            retry(schedule.delay(failures + 1), said, false)
        }
        Answer::Gone { said, .. } => {
            Verdict::Dead { reason: DeadReason::Unregistered, code: said.code, detail: said.detail }
        }
        Answer::Rejected(said) | Answer::Suspect(said) => {
            Verdict::Dead { reason: DeadReason::Rejected, code: said.code, detail: said.detail }
        }
        Answer::SlowDown { retry_after, said, .. } => {
            retry(slow_down_pause(retry_after, schedule), said, false)
        }
        Answer::Trouble { trouble: Trouble::Unknown, said, .. } if at_most_once => {
            Verdict::Unconfirmed { code: said.code, detail: said.detail }
        }
        Answer::Trouble { said, .. } if charged && failures + 1 >= schedule.max_attempts => {
            Verdict::Dead { reason: DeadReason::AttemptsExhausted, code: said.code, detail: said.detail }
        }
        Answer::Trouble { retry_after, said, .. } => {
            retry(schedule.delay(failures + 1).max(retry_after.unwrap_or_default()), said, charged)
        }
    }
}

fn retry(after: Duration, said: Said, charged: bool) -> Verdict {
    Verdict::Retry { after, code: said.code, detail: said.detail, charged }
}

/// A provider's wish for a pause is heeded up to this for all its deliveries, which is as long as providers are known to ask for;
/// after it they begin with a few calls. The delivery that it answered waits in full.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// How long nobody calls a provider that asked to slow down.
pub fn provider_pause(retry_after: Option<Duration>, schedule: &RetrySchedule) -> Duration {
    slow_down_pause(retry_after, schedule).min(LONGEST_PAUSE)
}

/// How long to leave a provider alone that asked to slow down; where it named no time, or none to speak of, as long as the
/// schedule's first delay.
fn slow_down_pause(retry_after: Option<Duration>, schedule: &RetrySchedule) -> Duration {
    retry_after.filter(|pause| !pause.is_zero()).unwrap_or(schedule.initial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::answer::SlowDown;

    const SECOND: Duration = Duration::from_secs(1);

    fn schedule() -> RetrySchedule {
        RetrySchedule { initial: 2 * SECOND, factor: 3.0, floor: Duration::ZERO, max_attempts: 4 }
    }

    fn trouble(retry_after: Option<Duration>) -> Answer {
        Answer::Trouble { trouble: Trouble::Failed, retry_after, said: Said::new("503", "busy") }
    }

    fn case(failures: i32) -> Case {
        Case { failures, charged: true, at_most_once: false, doubted: false }
    }

    fn delay(answer: Answer, failures: i32) -> Option<Duration> {
        match judge(answer, case(failures), &schedule()) {
            Verdict::Retry { after, .. } => Some(after),
            _ => None,
        }
    }

    #[test]
    fn trouble_is_tried_again_after_2_6_and_18_seconds_and_is_dead_the_fourth_time() {
        let delays: Vec<_> = (0..4).map(|failures| delay(trouble(None), failures)).collect();
        assert_eq!(delays, [Some(2 * SECOND), Some(6 * SECOND), Some(18 * SECOND), None]);
        assert!(matches!(
            judge(trouble(None), case(3), &schedule()),
            Verdict::Dead { reason: DeadReason::AttemptsExhausted, ref code, .. } if code == "503"
        ));
    }

    #[test]
    fn retry_after_lengthens_a_delay_and_never_shortens_it() {
        assert_eq!(delay(trouble(Some(30 * SECOND)), 0), Some(30 * SECOND));
        assert_eq!(delay(trouble(Some(SECOND)), 0), Some(2 * SECOND));
    }

    #[test]
    fn no_delay_is_shorter_than_the_providers_floor() {
        let floored = RetrySchedule { floor: 10 * SECOND, ..schedule() };
        let delays = (0..3).map(|failures| match judge(trouble(None), case(failures), &floored) {
            Verdict::Retry { after, .. } => after,
            other => panic!("{other:?}"),
        });
        assert_eq!(delays.collect::<Vec<_>>(), [10 * SECOND, 10 * SECOND, 18 * SECOND]);
    }

    #[test]
    fn slow_down_waits_as_asked_and_never_uses_up_an_attempt() {
        for failures in [0, 3] {
            let (whom, retry_after) = (SlowDown::Provider, Some(9 * SECOND));
            let answer = Answer::SlowDown { whom, retry_after, said: Said::new("429", "") };
            assert_eq!(
                judge(answer, case(failures), &schedule()),
                Verdict::Retry {
                    after: 9 * SECOND,
                    code: "429".into(),
                    detail: String::new(),
                    charged: false
                }
            );
        }
        for unnamed in [None, Some(Duration::ZERO)] {
            assert_eq!(slow_down_pause(unnamed, &schedule()), 2 * SECOND);
        }
    }

    #[test]
    fn a_provider_is_left_alone_for_the_ten_minutes_it_asks_for_and_one_answer_does_not_stop_it_for_a_day() {
        let day = 86_400 * SECOND;
        assert_eq!(provider_pause(Some(600 * SECOND), &schedule()), 600 * SECOND);
        assert_eq!(provider_pause(Some(day), &schedule()), LONGEST_PAUSE);
        assert_eq!(provider_pause(None, &schedule()), 2 * SECOND);
        let (whom, retry_after) = (SlowDown::Provider, Some(day));
        let answer = Answer::SlowDown { whom, retry_after, said: Said::new("429", "") };
        assert_eq!(delay(answer, 0), Some(day), "the delivery itself waits in full");
    }

    #[test]
    fn a_gone_token_and_a_rejected_request_are_dead_at_the_first_answer() {
        let said = || Said::new("410", "unregistered");
        assert!(matches!(
            judge(Answer::Gone { since: None, said: said() }, case(0), &schedule()),
            Verdict::Dead { reason: DeadReason::Unregistered, .. }
        ));
        assert!(matches!(
            judge(Answer::Rejected(said()), case(0), &schedule()),
            Verdict::Dead { reason: DeadReason::Rejected, .. }
        ));
    }

    #[test]
    fn a_provider_that_is_not_believed_kills_no_delivery_by_what_it_says_of_tokens() {
        let said = || Said::new("410", "unregistered");
        let doubted = Case { doubted: true, ..case(3) };
        for answer in [Answer::Gone { since: None, said: said() }, Answer::Suspect(said())] {
            let after = schedule().delay(4);
            let retry =
                Verdict::Retry { after, code: "410".into(), detail: "unregistered".into(), charged: false };
            assert_eq!(judge(answer, doubted, &schedule()), retry);
        }
        assert!(matches!(judge(Answer::Rejected(said()), doubted, &schedule()), Verdict::Dead { .. }));
    }

    #[test]
    fn only_a_gone_token_is_called_unregistered_a_suspect_one_is_rejected() {
        let suspect = Answer::Suspect(Said::new("BadDeviceToken", ""));
        assert!(matches!(
            judge(suspect, case(0), &schedule()),
            Verdict::Dead { reason: DeadReason::Rejected, ref code, .. } if code == "BadDeviceToken"
        ));
    }

    #[test]
    fn while_the_provider_fails_as_a_whole_no_attempt_is_used_up_not_even_the_last() {
        let parked = Case { charged: false, ..case(3) };
        assert!(matches!(
            judge(trouble(None), parked, &schedule()),
            Verdict::Retry { charged: false, after, .. } if after == schedule().delay(4)
        ));
    }

    #[test]
    fn at_most_once_an_answer_that_never_came_is_not_asked_for_again_and_a_refusal_is() {
        let once = Case { at_most_once: true, ..case(0) };
        let said = || Said::new("timeout", "");
        let lost = Answer::Trouble { trouble: Trouble::Unknown, retry_after: None, said: said() };
        assert!(matches!(
            judge(lost, once, &schedule()),
            Verdict::Unconfirmed { ref code, .. } if code == "timeout"
        ));
        for safe in [Trouble::Unreachable, Trouble::Denied, Trouble::Failed] {
            let answer = Answer::Trouble { trouble: safe, retry_after: None, said: said() };
            assert!(matches!(judge(answer, once, &schedule()), Verdict::Retry { .. }), "{safe:?}");
        }
    }
}
