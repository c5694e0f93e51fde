//! Beginning gently: after its start, an outage, or a pause that it asked for, a provider gets a few calls at first.

use std::time::Duration;

/// The share of the calls that may be under way which is allowed at first; it doubles every [`STEP`].
const FIRST: f64 = 1.0 / 32.0;
const STEP: Duration = Duration::from_millis(250);

/// The calls that may be under way of at most `limit`, so long after the beginning.
pub fn allows(limit: usize, after: Duration) -> usize {
    let steps = after.as_secs_f64() / STEP.as_secs_f64();
    let share = (FIRST * steps.min(30.0).exp2()).min(1.0);
    ((limit as f64 * share) as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_calls_at_first_and_all_of_them_after_a_second_and_a_quarter() {
        assert_eq!(allows(512, Duration::ZERO), 16);
        assert_eq!(allows(512, 2 * STEP), 64);
        assert_eq!(allows(512, 5 * STEP), 512);
        assert_eq!(allows(512, Duration::MAX), 512);
        assert_eq!(allows(1, Duration::ZERO), 1, "never none");
    }
}
