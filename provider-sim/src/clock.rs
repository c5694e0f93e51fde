//! The simulator's clock, which may be told to be wrong.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::header::{DATE, HeaderValue};

use crate::Behaviour;
use crate::answer::Answer;

/// Sets the date of an answer where the simulator's clock is to be wrong.
pub(crate) fn tell_time(answer: &mut Answer, behaviour: &Behaviour) {
    if behaviour.clock_ahead_s == 0 {
        return;
    }
    let date = httpdate::fmt_http_date(UNIX_EPOCH + now(behaviour));
    if let Ok(date) = HeaderValue::from_str(&date) {
        answer.headers_mut().insert(DATE, date);
    }
}

/// The simulator's time since 1970.
pub(crate) fn now(behaviour: &Behaviour) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let skew = Duration::from_secs(behaviour.clock_ahead_s.unsigned_abs().into());
    if behaviour.clock_ahead_s < 0 { now.saturating_sub(skew) } else { now + skew }
}
