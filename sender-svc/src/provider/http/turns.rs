//! Which of a provider's connections carries the next call: each in turn for some calls, but one on which calls only fail rests
//! while others work. Providers allow so many connections and close a further one at once; where every call took the turn that it got,
//! each of those would connect again and use up an attempt.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Calls that a connection carries before it is the next one's turn. Calls that begin together, which are those whose places became
/// free together, then leave in one write, and reach the provider in one read.
const RUN: usize = 16;
/// How long a connection rests after a failure. Then one call tries it; each that fails doubles the rest, up to the second.
const REST: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(60));

#[derive(Debug)]
pub struct Turns {
    next: AtomicUsize,
    connections: Vec<Mutex<Option<Rest>>>,
}

#[derive(Debug, Clone, Copy)]
struct Rest {
    length: Duration,
    until: Instant,
}

impl Turns {
    pub fn new(connections: usize) -> Self {
        let connections = (0..connections).map(|_| Mutex::default()).collect();
        Self { next: AtomicUsize::new(0), connections }
    }

    fn rest(&self, connection: usize) -> MutexGuard<'_, Option<Rest>> {
        self.connections[connection].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next one that does not rest. Where all do, the next one: that nothing works is for the breaker to see.
    pub fn take(&self, now: Instant) -> usize {
        let count = self.connections.len();
        let first = self.next.fetch_add(1, Ordering::Relaxed) / RUN % count;
        (0..count).map(|n| (first + n) % count).find(|n| self.may_carry(*n, now)).unwrap_or(first)
    }

    fn may_carry(&self, connection: usize, now: Instant) -> bool {
        let mut rest = self.rest(connection);
        match *rest {
            None => true,
            Some(Rest { until, .. }) if now < until => false,
            // This call tries it. The others stay away until it has worked, or for a longer rest.
            Some(Rest { length, .. }) => {
                let length = (length * 2).min(REST.1);
                *rest = Some(Rest { length, until: now + length });
                true
            }
        }
    }

    /// The provider answered a call, whatever it said.
    pub fn works(&self, connection: usize) {
        *self.rest(connection) = None;
    }

    /// A call ended without an answer, and not because that took too long. Those that were under way together fail together,
    /// which is one failure.
    pub fn fails(&self, connection: usize, now: Instant) {
        self.rest(connection).get_or_insert(Rest { length: REST.0, until: now + REST.0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_fails_is_tried_by_one_call_after_each_rest_and_ever_more_seldom() {
        let turns = Turns::new(3);
        let mut now = Instant::now();
        let calls: Vec<_> = (0..4 * RUN).map(|_| turns.take(now)).collect();
        assert_eq!(calls, [0, 1, 2, 0].map(|connection| [connection; RUN]).concat());
        (0..100).for_each(|_| turns.fails(1, now));
        let mut rest = REST.0;
        for _ in 0..20 {
            assert!((0..100).all(|_| turns.take(now) != 1));
            now += rest;
            assert_eq!((0..100).filter(|_| turns.take(now) == 1).count(), 1);
            turns.fails(1, now);
            rest = (rest * 2).min(REST.1);
        }
        assert_eq!(rest, REST.1);
        turns.works(1);
        assert_eq!((0..3 * RUN).filter(|_| turns.take(now) == 1).count(), RUN);
    }

    #[test]
    fn where_nothing_works_all_connections_take_turns() {
        for count in [1, 2] {
            let (turns, now) = (Turns::new(count), Instant::now());
            (0..count).for_each(|connection| turns.fails(connection, now));
            assert!((0..5 * RUN).all(|n| turns.take(now) == n / RUN % count));
        }
    }
}
