//! A rate limit of a provider, or of a broadcast, as one sender keeps it: a call starts only in a slot that this sender has reserved, and a slot that
//! is not used soon is lost, so that no pause is ever followed by a burst.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::slots::{Slots, Span};
use crate::metrics::PaceMeter;

/// A slot may be used so long after its time: timers are late, and more so on a busy machine. All calls of a second may be late
/// by less, which is why this and what happens on the way stay within the share of the rate that is not given away.
const USABLE: Duration = Duration::from_millis(15);
/// The same for slots of a broadcast, of which a greater share is not given away: what is called in them waits for other things, too.
const USABLE_OF_BROADCAST: Duration = Duration::from_millis(25);
/// Whoever waits for a slot looks this often whether its call may still be made.
const PATIENCE: Duration = Duration::from_millis(250);
/// Deliveries that were noted as about to be called (at most once) and wait for a slot: as many as the rate uses in this time.
const NOTED_AHEAD: Duration = Duration::from_millis(100);

/// The right to begin a call now, and until then.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    until: Instant,
}

impl Slot {
    pub fn until(self) -> Instant {
        self.until
    }
}

/// The rate limit of one provider, or none; or of one broadcast.
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
    /// Of them, those who have little time.
    hurried: AtomicUsize,
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
        Self::with(rate, meter, USABLE)
    }

    pub fn of_broadcast(rate: u32) -> Self {
        Self::with(Some(rate), PaceMeter::of_broadcasts(), USABLE_OF_BROADCAST)
    }

    fn with(rate: Option<u32>, meter: PaceMeter, usable: Duration) -> Self {
        Self {
            rate: AtomicU32::new(rate.unwrap_or(0)),
            slots: Mutex::new(Slots { spans: VecDeque::new(), usable }),
            turn: tokio::sync::Mutex::new(()),
            news: Notify::new(),
            waiting: AtomicUsize::new(0),
            hurried: AtomicUsize::new(0),
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
        let slot = tokio::time::timeout(PATIENCE, self.next(needed, false)).await;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        slot.ok().flatten()
    }

    /// The same for whoever has a slot of a broadcast, which ends at `until`, and so goes before the others. A slot that comes
    /// later stays for them.
    pub async fn slot_before(&self, until: Instant, needed: &Notify) -> Option<Slot> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.hurried.fetch_add(1, Ordering::Relaxed);
        let slot = tokio::time::timeout_at(until, self.next(needed, true)).await;
        self.hurried.fetch_sub(1, Ordering::Relaxed);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        slot.ok().flatten()
    }

    async fn next(&self, needed: &Notify, hurried: bool) -> Option<Slot> {
        let mut _turn = self.turn.lock().await;
        loop {
            if !hurried && self.hurried.load(Ordering::Relaxed) > 0 {
                // Back in the line, behind them.
                drop(_turn);
                tokio::task::yield_now().await;
                _turn = self.turn.lock().await;
            }
            self.rate()?;
            let now = Instant::now();
            let (next, forfeited) = self.slots().next(now);
            self.meter.forfeited.increment(u64::from(forfeited));
            match next {
                Some(at) if at <= now => {
                    self.slots().take();
                    let until = at + self.usable();
                    return Some(Slot { until });
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

    /// When the next slot is that none of those with a place will take.
    pub fn free_slot(&self, now: Instant) -> Option<Instant> {
        let mut slots = self.slots();
        let (_, forfeited) = slots.next(now);
        self.meter.forfeited.increment(u64::from(forfeited));
        slots.nth(self.placed())
    }

    /// A place among the calls of a broadcast that wait for their slot.
    pub fn place(&self) -> Counted {
        self.noted.fetch_add(1, Ordering::Relaxed);
        Counted(self.noted.clone())
    }

    /// How many have a place.
    pub fn placed(&self) -> usize {
        self.noted.load(Ordering::Relaxed)
    }

    fn usable(&self) -> Duration {
        self.slots().usable
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a rate allows within `time`; at least one.
pub fn per(rate: u32, time: Duration) -> usize {
    ((f64::from(rate) * time.as_secs_f64()) as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(10);

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
