//! A line: what belongs to one provider. Its local queue, its calls in flight, its pause, its breaker.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bongsu_store::{ProviderId, Signals};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::breaker::{Breaker, Parked};
use super::doubt::Doubt;
use super::judge::RetrySchedule;
use super::queue::LocalQueue;
use crate::config::providers::Common;
use crate::metrics::CallMeter;
use crate::provider::Adapter;

/// Beside the calls in flight, a line holds this much work at its present rate, so that an urgent broadcast does not wait
/// behind a long local queue …
const QUEUE_TIME: Duration = Duration::from_millis(100);
/// … but never less than this, which is one full batch.
const QUEUE_LEAST: usize = 500;

/// One provider, as this sender works on it.
#[derive(Debug)]
pub struct Line {
    pub provider: ProviderId,
    pub name: String,
    pub adapter: Adapter,
    pub schedule: RetrySchedule,
    /// Free places for calls.
    pub flight: Arc<Semaphore>,
    flight_limit: usize,
    calling: AtomicUsize,
    pub queue: LocalQueue,
    /// Answers since start.
    answered: AtomicU64,
    /// Answers per second, lately.
    rate: AtomicU64,
    paused_until: Mutex<Option<Instant>>,
    pub breaker: Breaker,
    pub doubt: Doubt,
    pub meter: CallMeter,
    probe_due: AtomicBool,
    /// The greatest rank claimed.
    pub vtime: AtomicI64,
    /// What the claim looks for at least: a virtual time published two heartbeats ago, so that fresh work that was ranked
    /// meanwhile lies above.
    pub floor: AtomicI64,
}

impl Line {
    pub fn new(provider: ProviderId, name: String, adapter: Adapter, common: &Common) -> Self {
        let flight_limit = common.in_flight as usize;
        Self {
            provider,
            meter: CallMeter::new(&name),
            name,
            adapter,
            schedule: common.schedule.clone(),
            flight: Arc::new(Semaphore::new(flight_limit)),
            flight_limit,
            calling: AtomicUsize::new(0),
            queue: LocalQueue::default(),
            answered: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            paused_until: Mutex::new(None),
            breaker: Breaker::new(!common.never_park),
            doubt: Doubt::new(common.mass_invalidation.clone()),
            probe_due: AtomicBool::new(false),
            vtime: AtomicI64::new(0),
            floor: AtomicI64::new(0),
        }
    }

    /// Calls under way.
    pub fn in_flight(&self) -> usize {
        self.calling.load(Ordering::Relaxed)
    }

    pub fn count_call(&self) {
        self.calling.fetch_add(1, Ordering::Relaxed);
    }

    /// Deliveries to claim now: none while the queue is still half full, or the provider closed.
    pub fn wanted(&self) -> usize {
        let queue_target = QUEUE_LEAST.max(self.per(QUEUE_TIME));
        if self.is_closed() || self.queue.len() > queue_target / 2 {
            return 0;
        }
        (queue_target + self.allowed()).saturating_sub(self.queue.len() + self.in_flight())
    }

    /// A call that was counted did not begin.
    pub fn uncount_call(&self) {
        self.calling.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn count_answer(&self) {
        self.calling.fetch_sub(1, Ordering::Relaxed);
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Called at a steady pace with the answers counted before; returns the present count.
    pub fn measure_rate(&self, before: u64, elapsed: Duration) -> u64 {
        let now = self.answered.load(Ordering::Relaxed);
        let latest = (now - before) as f64 / elapsed.as_secs_f64().max(0.001);
        let smooth = self.rate.load(Ordering::Relaxed) as f64 * 0.5 + latest * 0.5;
        self.rate.store(smooth as u64, Ordering::Relaxed);
        now
    }

    fn per(&self, time: Duration) -> usize {
        (self.rate.load(Ordering::Relaxed) as f64 * time.as_secs_f64()) as usize
    }

    fn paused(&self) -> MutexGuard<'_, Option<Instant>> {
        self.paused_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no call may start: the provider asked to slow down, or is parked.
    pub fn is_closed(&self) -> bool {
        self.breaker.is_parked() || self.paused().is_some_and(|until| Instant::now() < until)
    }

    /// Calls that may be under way now.
    fn allowed(&self) -> usize {
        self.breaker.allows(self.flight_limit, Instant::now())
    }

    /// Whether one call more may be under way.
    pub fn has_room(&self) -> bool {
        self.in_flight() < self.allowed()
    }

    /// Takes in what all senders know of the provider. True where a probe is due.
    pub fn heed(&self, signals: &Signals, asked: Instant) -> bool {
        let parked = Parked { parked: signals.parked, doubted: signals.doubted };
        self.breaker.heed(parked, signals.resumed_ago, asked, Instant::now());
        if !signals.held.is_zero() {
            self.pause(signals.held);
        }
        self.probe_due.store(signals.probe_due, Ordering::Relaxed);
        signals.probe_due
    }

    /// Whether a probe is due; the next one only once Postgres says so again.
    pub fn take_probe_due(&self) -> bool {
        self.probe_due.swap(false, Ordering::Relaxed)
    }

    /// No call starts for this long. True where that is news.
    pub fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut paused = self.paused();
        // Answers that were in flight together ask for nearly the same: one of them is enough.
        let news = paused.is_none_or(|before| until > before + Duration::from_millis(100));
        if news {
            *paused = Some(until);
        }
        news
    }
}
