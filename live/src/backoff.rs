//! How long to leave alone what failed.

use std::time::Duration;

/// After the first failure, at most.
const FIRST: Duration = Duration::from_millis(100);
/// After many, at most.
const LONGEST: Duration = Duration::from_secs(2);

/// The pause after so many failures in a row: doubled with each, and of that between half and all, by a number between 0 and 1. So
/// those that lost the same server do not come back at the same moment.
pub(crate) fn pause(failures: u32, random: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    (FIRST * 2_u32.pow(doublings)).min(LONGEST).mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ_by_chance() {
        assert_eq!(pause(1, 1.0), Duration::from_millis(100));
        assert_eq!(pause(1, 0.0), Duration::from_millis(50));
        assert_eq!(pause(3, 1.0), Duration::from_millis(400));
        assert_eq!(pause(6, 1.0), LONGEST);
        assert_eq!(pause(u32::MAX, 1.0), LONGEST);
        assert_eq!(pause(u32::MAX, 0.0), LONGEST / 2);
    }
}
