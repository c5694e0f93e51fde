//! A provider's rate limit, as one sender keeps it: a call starts only in a slot that this sender has reserved, and a slot that
//! is not used soon is lost, so that no pause is ever followed by a burst.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::metrics::PaceMeter;

/// A slot may be used so long after its time: timers are late, and more so on a busy machine. All calls of a second may be late
/// by less, which is why this and what happens on the way stay within the share of the rate that is not given away.
const USABLE: Duration = Duration::from_millis(15);
/// Whoever waits for a slot looks this often whether its call may still be made.
const PATIENCE: Duration = Duration::from_millis(250);
/// Deliveries that were noted as about to be called (at most once) and wait for a slot: as many as the rate uses in this time.
const NOTED_AHEAD: Duration = Duration::from_millis(100);

/// The right to begin a call now, and until then.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    until: Instant,
}

/// One provider's rate limit, or none.
#[derive(Debug)]
pub struct Pacer {
    /// Calls within a second; 0: no limit.
    rate: AtomicU32,
    slots: Mutex<Slots>,
    /// Whoever is next, in order of arrival.
    turn: tokio::sync::Mutex<()>,
    /// Slots came, or the limit went.
    news: Notify,
    waiting: AtomicUsize,
    noted: Arc<AtomicUsize>,
    meter: PaceMeter,
}

/// Counts somebody for as long as it lives.
#[derive(Debug)]
pub struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pacer {
    pub fn new(rate: Option<u32>, meter: PaceMeter) -> Self {
        Self {
            rate: AtomicU32::new(rate.unwrap_or(0)),
            slots: Mutex::default(),
            turn: tokio::sync::Mutex::new(()),
            news: Notify::new(),
            waiting: AtomicUsize::new(0),
            noted: Arc::default(),
            meter,
        }
    }

    /// Calls within a second at most, of all senders together; `None` where there is no limit.
    pub fn rate(&self) -> Option<u32> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }

    /// True where that is news.
    pub fn set_rate(&self, rate: Option<u32>) -> bool {
        let new = rate.unwrap_or(0);
        let news = self.rate.swap(new, Ordering::Relaxed) != new;
        if news {
            self.news.notify_one();
        }
        news
    }

    /// Whether a call may start, with this slot where there is a limit.
    pub fn allows(&self, slot: Option<Slot>) -> bool {
        self.rate().is_none() || slot.is_some_and(|slot| Instant::now() <= slot.until)
    }

    /// The next slot, at its time. `None` after [`PATIENCE`], or where none is needed any more. Tells `needed` when there is none.
    pub async fn slot(&self, needed: &Notify) -> Option<Slot> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let slot = tokio::time::timeout(PATIENCE, self.next(needed)).await;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        slot.ok().flatten()
    }

    async fn next(&self, needed: &Notify) -> Option<Slot> {
        let _turn = self.turn.lock().await;
        loop {
            self.rate()?;
            let now = Instant::now();
            let (next, forfeited) = self.slots().next(now);
            self.meter.forfeited.increment(u64::from(forfeited));
            match next {
                Some(at) if at <= now => {
                    self.slots().take();
                    return Some(Slot { until: at + USABLE });
                }
                Some(at) => tokio::time::sleep_until(at).await,
                None => {
                    needed.notify_one();
                    self.news.notified().await;
                }
            }
        }
    }

    /// A call began in its slot.
    pub fn used(&self) {
        self.meter.used.increment(1);
    }

    /// A slot was taken and not used in time.
    pub fn forfeit(&self) {
        self.meter.forfeited.increment(1);
    }

    /// Takes in slots that were reserved.
    pub fn add(&self, first: Instant, slots: u32, step: Duration) {
        self.meter.reserved.increment(slots.into());
        self.slots().spans.push_back(Span { next: first, left: slots, step });
        self.news.notify_one();
    }

    /// Gives up what is reserved: Postgres may have forgotten it.
    pub fn forget(&self) {
        let spans = std::mem::take(&mut self.slots().spans);
        self.meter.forfeited.increment(spans.iter().map(|span| u64::from(span.left)).sum());
    }

    /// Calls that wait for a slot.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How many slots are reserved, and how far ahead.
    pub fn ahead(&self, now: Instant) -> (usize, Duration) {
        let slots = self.slots();
        let left = slots.spans.iter().map(|span| span.left as usize).sum();
        let end = slots.spans.back().map(|span| span.next + span.step * span.left);
        (left, end.map_or(Duration::ZERO, |end| end.saturating_duration_since(now)))
    }

    /// A place among the deliveries that are noted before their slot comes; `None` while they are many.
    pub fn place_to_note(&self) -> Option<Counted> {
        let most = self.rate().map_or(usize::MAX, |rate| per(rate, NOTED_AHEAD));
        if self.noted.load(Ordering::Relaxed) >= most {
            return None;
        }
        self.noted.fetch_add(1, Ordering::Relaxed);
        Some(Counted(self.noted.clone()))
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a rate allows within `time`; at least one.
pub fn per(rate: u32, time: Duration) -> usize {
    ((f64::from(rate) * time.as_secs_f64()) as usize).max(1)
}

/// Reserved slots, the earliest first. Bounded by what is given away ahead.
#[derive(Debug, Default)]
struct Slots {
    spans: VecDeque<Span>,
}

/// Slots a step apart.
#[derive(Debug)]
struct Span {
    next: Instant,
    left: u32,
    step: Duration,
}

impl Slots {
    /// When the next slot is that can still be used, and how many are too old.
    fn next(&mut self, now: Instant) -> (Option<Instant>, u32) {
        let mut forfeited = 0;
        while let Some(span) = self.spans.front_mut() {
            while span.left > 0 && span.next + USABLE < now {
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

    fn take(&mut self) {
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
        Slots { spans: VecDeque::from([Span { next: first, left, step: STEP }]) }
    }

    #[test]
    fn calls_are_spread_evenly_over_the_slots() {
        let start = Instant::now();
        let mut slots = slots(start + STEP, 5);
        slots.spans.push_back(Span { next: start + 20 * STEP, left: 1, step: STEP });
        assert_eq!(calls(&mut slots, start, start), [10, 20, 30, 40, 50, 200]);
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

    #[test]
    fn a_slot_that_was_taken_is_not_kept_for_later() {
        let pacer = Pacer::new(Some(100), PaceMeter::new("test"));
        let now = Instant::now();
        assert!(pacer.allows(Some(Slot { until: now + STEP * 1_000 })));
        assert!(!pacer.allows(Some(Slot { until: now - STEP })) && !pacer.allows(None));
    }

    #[tokio::test]
    async fn where_there_is_no_limit_any_more_no_slot_is_waited_for() {
        let pacer = Pacer::new(Some(100), PaceMeter::new("test"));
        let needed = Notify::new();
        let (slot, ()) = tokio::join!(pacer.slot(&needed), async {
            needed.notified().await;
            assert!(pacer.set_rate(None));
        });
        assert!(slot.is_none() && pacer.allows(slot));
        assert!(!pacer.set_rate(None), "that is no news");
    }

    #[test]
    fn slots_that_postgres_may_have_forgotten_are_not_used() {
        let pacer = Pacer::new(Some(100), PaceMeter::new("test"));
        let now = Instant::now();
        pacer.add(now, 5, STEP);
        assert_eq!(pacer.ahead(now), (5, 5 * STEP));
        pacer.forget();
        assert_eq!(pacer.ahead(now), (0, Duration::ZERO));
    }

    #[test]
    fn deliveries_are_noted_no_further_ahead_than_the_rate_uses_soon() {
        let pacer = Pacer::new(Some(30), PaceMeter::new("test"));
        let mut noted: Vec<_> = std::iter::from_fn(|| pacer.place_to_note()).collect();
        assert_eq!(noted.len(), 3);
        noted.pop();
        assert!(pacer.place_to_note().is_some());
    }
}
