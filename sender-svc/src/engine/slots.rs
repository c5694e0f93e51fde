//! Moments to call at that a sender has reserved, the earliest first.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Reserved slots, the earliest first. Bounded by what is given away ahead.
#[derive(Debug)]
pub(super) struct Slots {
    pub spans: VecDeque<Span>,
    /// A slot may be used so long after its time.
    pub usable: Duration,
}

/// Slots a step apart.
#[derive(Debug)]
pub(super) struct Span {
    pub next: Instant,
    pub left: u32,
    pub step: Duration,
}

impl Slots {
    /// When the next slot is that can still be used, and how many are too old.
    pub fn next(&mut self, now: Instant) -> (Option<Instant>, u32) {
        let mut forfeited = 0;
        while let Some(span) = self.spans.front_mut() {
            while span.left > 0 && span.next + self.usable < now {
                span.pass();
                forfeited += 1;
            }
            if span.left > 0 {
                return (Some(span.next), forfeited);
            }
            self.spans.pop_front();
        }
        (None, forfeited)
    }

    /// When the slot is that comes after the next `n`.
    pub fn nth(&self, mut n: usize) -> Option<Instant> {
        for span in &self.spans {
            let left = span.left as usize;
            if n < left {
                return Some(span.next + span.step * u32::try_from(n).unwrap_or(u32::MAX));
            }
            n -= left;
        }
        None
    }

    pub fn take(&mut self) {
        if let Some(span) = self.spans.front_mut() {
            span.pass();
        }
    }
}

impl Span {
    fn pass(&mut self) {
        self.next += self.step;
        self.left = self.left.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(10);

    /// Who wants to call all the time, from `now` on, looking every millisecond: when calls begin, in milliseconds of `start`.
    fn calls(slots: &mut Slots, start: Instant, now: Instant) -> Vec<u128> {
        let (mut now, mut calls) = (now, vec![]);
        while let (Some(at), _) = slots.next(now) {
            if at <= now {
                slots.take();
                calls.push((now - start).as_millis());
            } else {
                now += Duration::from_millis(1);
            }
        }
        calls
    }

    fn slots(first: Instant, left: u32) -> Slots {
        Slots {
            spans: VecDeque::from([Span { next: first, left, step: STEP }]),
            usable: Duration::from_millis(15),
        }
    }

    #[test]
    fn calls_are_spread_evenly_over_the_slots() {
        let start = Instant::now();
        let mut slots = slots(start + STEP, 5);
        slots.spans.push_back(Span { next: start + 20 * STEP, left: 1, step: STEP });
        assert_eq!(calls(&mut slots, start, start), [10, 20, 30, 40, 50, 200]);
    }

    #[test]
    fn whoever_comes_later_waits_for_a_later_slot() {
        let start = Instant::now();
        let mut slots = slots(start, 2);
        slots.spans.push_back(Span { next: start + 20 * STEP, left: 1, step: STEP });
        let all = [0, 1, 2, 3].map(|n| slots.nth(n));
        assert_eq!(all, [Some(start), Some(start + STEP), Some(start + 20 * STEP), None]);
    }

    #[test]
    fn slots_that_were_not_used_in_time_are_lost_and_never_make_a_burst() {
        let start = Instant::now();
        let mut slots = slots(start, 13);
        let late = start + 10 * STEP;
        assert_eq!(slots.next(late), (Some(start + 9 * STEP), 9));
        assert_eq!(
            calls(&mut slots, start, late),
            [100, 100, 110, 120],
            "that of now, the one before, and then as ever"
        );
    }
}
