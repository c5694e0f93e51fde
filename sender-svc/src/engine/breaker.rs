//! Whether a provider fails as a whole: then it is parked, everywhere, and nobody's attempts are used up on it.
//!
//! Evidence is a streak of failures that no definite answer interrupts. Only first attempts count, and failures that cannot
//! be a device's fault (no connection, credentials refused): the devices that always fail would, once they alone are left,
//! look like an outage.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::ramp;

/// This many failures in a row, over at least this long, park a provider: neighbours that fail together are often answered
/// together, and what was called with them comes in a moment later …
const STREAK: (u32, Duration) = (20, Duration::from_millis(250));
/// … and so do fewer over a longer time, so that a provider with little traffic is parked too.
const SHORT_STREAK: (u32, Duration) = (3, Duration::from_secs(1));
/// So long after a failure of a short streak, a delivery's last attempt is not held against it: until it is known whether
/// the provider is parked.
const SUSPECT: Duration = STREAK.1;

/// One provider's breaker, as this sender knows it.
#[derive(Debug)]
pub struct Breaker {
    /// Whether failures are looked at; what others found holds in any case.
    parks: bool,
    state: Mutex<State>,
}

/// Whether nobody calls a provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parked {
    pub parked: bool,
    /// It is because it called implausibly many tokens gone (see [`super::doubt`]).
    pub doubted: bool,
}

impl Parked {
    const FAILING: Self = Self { parked: true, doubted: false };
    const DOUBTED: Self = Self { parked: true, doubted: true };
    pub const NOT: Self = Self { parked: false, doubted: false };
}

#[derive(Debug, Default)]
struct State {
    /// Failures that count, since the last definite answer, and when the first and the last of them came.
    streak: u32,
    first: Option<Instant>,
    last: Option<Instant>,
    parked: Parked,
    /// Parked here, and not known to be in Postgres yet.
    parking: bool,
    /// What Postgres was asked before this may be from before that.
    heed_from: Option<Instant>,
    resumed_at: Option<Instant>,
}

impl Breaker {
    pub fn new(parks: bool) -> Self {
        Self { parks, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A definite answer: the provider works.
    pub fn works(&self) {
        let mut state = self.state();
        (state.streak, state.first, state.last) = (0, None, None);
    }

    /// A failure, which `counts` or not. True where it is the one that parks the provider: the caller makes it known.
    pub fn fails(&self, counts: bool, now: Instant) -> bool {
        let mut state = self.state();
        if counts {
            state.streak += 1;
            state.first.get_or_insert(now);
            state.last = Some(now);
        }
        let since = state.first.map_or(Duration::ZERO, |first| now - first);
        let fails = [STREAK, SHORT_STREAK].iter().any(|(n, length)| state.streak >= *n && since >= *length);
        if !self.parks || !fails || state.parked.parked {
            return false;
        }
        (state.parked, state.parking) = (Parked::FAILING, true);
        true
    }

    /// It is not believed any more. True where that parks it: the caller makes it known. Whoever switched parking off did not
    /// mean this.
    pub fn doubt(&self) -> bool {
        let mut state = self.state();
        if state.parked.parked {
            return false;
        }
        (state.parked, state.parking) = (Parked::DOUBTED, true);
        true
    }

    /// Whether it is parked because it is not believed.
    pub fn doubts(&self) -> bool {
        self.state().parked == Parked::DOUBTED
    }

    /// Postgres knows that it is parked, or could not be told: from here on what it says holds.
    pub fn parking_done(&self, now: Instant) {
        let mut state = self.state();
        (state.parking, state.heed_from) = (false, Some(now));
    }

    pub fn is_parked(&self) -> bool {
        self.state().parked.parked
    }

    /// Whether a failure now may well be the provider's.
    pub fn is_suspect(&self, now: Instant) -> bool {
        let state = self.state();
        let fresh = state.last.is_some_and(|last| now - last < SUSPECT);
        state.parked.parked || (self.parks && fresh && state.streak >= SHORT_STREAK.0)
    }

    /// What Postgres, `asked` then, says to all senders.
    pub fn heed(&self, parked: Parked, resumed_ago: Option<Duration>, asked: Instant, now: Instant) {
        let mut state = self.state();
        if state.parking || state.heed_from.is_some_and(|from| asked < from) {
            return;
        }
        if state.parked.parked && !parked.parked {
            (state.streak, state.first, state.last) = (0, None, None);
        }
        state.parked = parked;
        state.resumed_at = resumed_ago.and_then(|ago| now.checked_sub(ago));
    }

    /// The calls that may be under way of at most `limit`: fewer just after the provider came back.
    pub fn allows(&self, limit: usize, now: Instant) -> usize {
        self.state()
            .resumed_at
            .map_or(limit, |resumed_at| ramp::allows(limit, now.saturating_duration_since(resumed_at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_first_attempts_that_fail_in_a_row_park_a_provider_unless_an_answer_comes_between_them() {
        let now = Instant::now();
        let later = now + STREAK.1;
        let breaker = Breaker::new(true);
        for _ in 0..100 {
            assert!(!breaker.fails(true, now), "a hundred answered at once may be neighbours");
        }
        breaker.works();
        for _ in 0..STREAK.0 - 1 {
            assert!(!breaker.fails(true, now));
        }
        assert!(breaker.fails(true, later));
        assert!(breaker.is_parked());
        assert!(!breaker.fails(true, later), "it is told once");
    }

    #[test]
    fn three_failures_are_enough_where_nothing_worked_for_a_second() {
        let now = Instant::now();
        let breaker = Breaker::new(true);
        assert!(!breaker.fails(true, now) && !breaker.fails(true, now) && !breaker.fails(true, now));
        assert!(breaker.is_suspect(now));
        assert!(!breaker.is_suspect(now + SUSPECT), "suspicion does not last");
        assert!(
            breaker.fails(false, now + SHORT_STREAK.1),
            "the retry of one of them says that it still does not work"
        );
    }

    #[test]
    fn devices_that_always_fail_do_not_park_a_provider_by_their_retries() {
        let now = Instant::now();
        let breaker = Breaker::new(true);
        for n in 0..1_000 {
            assert!(!breaker.fails(false, now + n * SHORT_STREAK.1));
        }
    }

    #[test]
    fn after_an_outage_calls_start_with_a_few_and_reach_the_limit() {
        let now = Instant::now();
        let breaker = Breaker::new(true);
        assert_eq!(breaker.allows(512, now), 512);
        breaker.heed(Parked::NOT, Some(Duration::ZERO), now, now);
        assert_eq!(breaker.allows(512, now), 16);
        assert_eq!(breaker.allows(512, now + Duration::from_secs(2)), 512);
    }

    #[test]
    fn what_postgres_says_does_not_undo_a_parking_that_it_has_not_heard_of() {
        let now = Instant::now();
        let breaker = Breaker::new(true);
        for n in 0..STREAK.0 {
            breaker.fails(true, now + n * STREAK.1);
        }
        breaker.heed(Parked::NOT, None, now, now);
        assert!(breaker.is_parked());
        let known = now + Duration::from_millis(5);
        breaker.parking_done(known);
        breaker.heed(Parked::NOT, None, now, known);
        assert!(breaker.is_parked(), "it was asked before");
        breaker.heed(Parked::NOT, None, known, known);
        assert!(!breaker.is_parked());
    }

    #[test]
    fn a_provider_that_is_not_believed_is_parked_for_that_even_where_failures_park_nothing() {
        let now = Instant::now();
        let breaker = Breaker::new(false);
        assert!(breaker.doubt() && !breaker.doubt(), "it is told once");
        assert!(breaker.is_parked() && breaker.doubts());
        breaker.parking_done(now);
        breaker.heed(Parked::FAILING, None, now, now);
        assert!(breaker.is_parked() && !breaker.doubts(), "somebody else was faster, for another reason");
    }
}
