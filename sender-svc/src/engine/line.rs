//! A line: what belongs to one provider. Its local queue, its calls in flight, its rate, its pause, its breaker.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bongsu_store::{Beside, ProviderId, Signals};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::adapt::{Adapt, Total};
use super::breaker::{Breaker, Parked};
use super::doubt::Doubt;
use super::judge::RetrySchedule;
use super::pace::{self, Pacer};
use super::queue::LocalQueue;
use super::ramp;
use super::slow_tier::SlowTier;
use crate::config::common::Common;
use crate::metrics::{CallMeter, PaceMeter};
use crate::provider::{Adapter, Answer, Trouble};

/// Beside the calls in flight, a line holds this much work at its present rate, so that an urgent broadcast does not wait
/// behind a long local queue …
const QUEUE_TIME: Duration = Duration::from_millis(50);
/// … but never less than this, which is one full batch.
const QUEUE_LEAST: usize = 500;
/// With a rate limit, work for this long is claimed, when half of it is left, since it is known what will be called when …
const PACED_QUEUE_TIME: Duration = Duration::from_millis(200);
/// … but never less than so much.
const PACED_QUEUE_LEAST: usize = 50;
/// Batches are larger than what a low rate uses soon. So what is more urgent than the rest of one is looked for this often, as long
/// as no more than so much lies here.
const LOOK_BESIDE: Duration = Duration::from_millis(100);
const QUEUE_MOST: usize = 2_000;

/// One provider, as this sender works on it.
#[derive(Debug)]
pub struct Line {
    pub provider: ProviderId,
    pub name: String,
    pub adapter: Adapter,
    pub schedule: RetrySchedule,
    pub slow_tier: Option<SlowTier>,
    /// Free places for calls.
    pub flight: Arc<Semaphore>,
    flight_limit: usize,
    /// Of these, how many the provider's latency leaves.
    adapted: AtomicUsize,
    adapt: Mutex<Adapt>,
    calling: AtomicUsize,
    pub queue: LocalQueue,
    /// Calls that have ended since the start, those of them that were answered, and how long all took.
    ended: AtomicU64,
    answered: AtomicU64,
    took_us: AtomicU64,
    /// Answers per second, lately.
    rate: AtomicU64,
    paused_until: Mutex<Option<Instant>>,
    first_call: OnceLock<Instant>,
    pub pacer: Pacer,
    looked_beside: Mutex<Option<Instant>>,
    pub breaker: Breaker,
    pub doubt: Doubt,
    pub meter: CallMeter,
    probe_due: AtomicBool,
    /// How far the fair queue has come: the greatest rank claimed, or with a rate limit, called.
    pub vtime: AtomicI64,
    /// What the claim looks for at least: a virtual time published two heartbeats ago, so that fresh work that was ranked
    /// meanwhile lies above.
    pub floor: AtomicI64,
}

impl Line {
    pub fn new(provider: ProviderId, name: String, adapter: Adapter, common: &Common) -> Self {
        let flight_limit = common.in_flight as usize;
        let pacer = Pacer::new(common.rate_per_second, PaceMeter::new(&name));
        Self {
            provider,
            meter: CallMeter::new(&name),
            name,
            adapter,
            schedule: common.schedule.clone(),
            slow_tier: common.slow_tier,
            flight: Arc::new(Semaphore::new(flight_limit)),
            flight_limit,
            adapted: AtomicUsize::new(flight_limit),
            adapt: Mutex::new(Adapt::new(flight_limit, Instant::now())),
            calling: AtomicUsize::new(0),
            queue: LocalQueue::default(),
            ended: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            took_us: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            paused_until: Mutex::new(None),
            first_call: OnceLock::new(),
            pacer,
            looked_beside: Mutex::new(None),
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
        self.first_call.get_or_init(Instant::now);
        self.calling.fetch_add(1, Ordering::Relaxed);
    }

    /// Deliveries to claim now: none while the queue is still half full, or the provider closed.
    pub fn wanted(&self) -> usize {
        let queued = self.queue.len();
        let queue_target = QUEUE_LEAST.max(self.per(QUEUE_TIME));
        let paced_target = self.paced_target().unwrap_or(usize::MAX);
        if self.is_closed() || queued > queue_target.min(paced_target) / 2 {
            return 0;
        }
        let usable = (queue_target + self.allowed()).saturating_sub(queued + self.in_flight());
        usable.min(paced_target.saturating_sub(queued))
    }

    /// With a rate limit: deliveries to have here.
    fn paced_target(&self) -> Option<usize> {
        self.pacer.rate().map(|rate| pace::per(rate, PACED_QUEUE_TIME).max(PACED_QUEUE_LEAST))
    }

    /// With a rate limit, and enough work here: how much to claim of what goes before some of it, where it is time to look.
    pub fn wanted_beside(&self, now: Instant) -> Option<(usize, Beside)> {
        let target = self.paced_target()?;
        let queued = self.queue.len();
        let mut looked = self.looked_beside.lock().unwrap_or_else(PoisonError::into_inner);
        let due = looked.is_none_or(|looked| now - looked >= LOOK_BESIDE);
        if !due || queued == 0 || queued > QUEUE_MOST || self.is_closed() {
            return None;
        }
        *looked = Some(now);
        let rank = self.queue.greatest_rank().unwrap_or(i64::MAX);
        Some((target, Beside { rank, retries: self.queue.retries() < target / 2 }))
    }

    /// A call that was counted did not begin.
    pub fn uncount_call(&self) {
        self.calling.fetch_sub(1, Ordering::Relaxed);
    }

    /// A call has ended, with an answer or not.
    pub fn count_end(&self, answer: &Answer, took: Duration) {
        self.calling.fetch_sub(1, Ordering::Relaxed);
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.took_us.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
        let unanswered =
            matches!(answer, Answer::Trouble { trouble: Trouble::Unknown | Trouble::Unreachable, .. });
        self.answered.fetch_add(u64::from(!unanswered), Ordering::Relaxed);
    }

    /// Called at a steady pace with the calls counted before; returns the present count.
    pub fn measure_rate(&self, before: u64, elapsed: Duration) -> u64 {
        self.adapt();
        let now = self.ended.load(Ordering::Relaxed);
        let latest = (now - before) as f64 / elapsed.as_secs_f64().max(0.001);
        let smooth = self.rate.load(Ordering::Relaxed) as f64 * 0.5 + latest * 0.5;
        self.rate.store(smooth as u64, Ordering::Relaxed);
        now
    }

    /// Lowers or raises the limit of calls under way by how fast the provider answers.
    fn adapt(&self) {
        let total = Total {
            answered: self.answered.load(Ordering::Relaxed),
            ended: self.ended.load(Ordering::Relaxed),
            took_us: self.took_us.load(Ordering::Relaxed),
        };
        let adapted = self.adapted.load(Ordering::Relaxed);
        // With a place or two free: whoever takes it was not there yet.
        let full = self.in_flight() * 10 >= adapted * 9;
        let limit =
            self.adapt.lock().unwrap_or_else(PoisonError::into_inner).look(total, full, Instant::now());
        if limit != adapted {
            self.adapted.store(limit, Ordering::Relaxed);
            tracing::debug!(
                provider = self.name,
                limit,
                "calls under way are limited by the provider's latency"
            );
        }
    }

    /// Answers to expect within `time`, as lately.
    pub fn per(&self, time: Duration) -> usize {
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
    pub fn allowed(&self) -> usize {
        self.allowed_at(Instant::now())
    }

    /// Fewer after a beginning: the first call, or the end of a pause.
    fn allowed_at(&self, now: Instant) -> usize {
        let paused_until = self.paused().filter(|until| *until <= now);
        let began = paused_until.max(Some(*self.first_call.get().unwrap_or(&now)));
        let limit = began.map_or(self.flight_limit, |began| ramp::allows(self.flight_limit, now - began));
        limit.min(self.breaker.allows(self.flight_limit, now)).min(self.adapted.load(Ordering::Relaxed))
    }

    /// Calls that may begin now.
    pub fn room(&self) -> usize {
        self.allowed().saturating_sub(self.in_flight())
    }

    /// Whether one call more may be under way.
    pub fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// Takes in what all senders know of the provider. True where a probe is due.
    pub fn heed(&self, signals: &Signals, asked: Instant) -> bool {
        let parked = Parked { parked: signals.parked, doubted: signals.doubted };
        self.breaker.heed(parked, signals.resumed_ago, asked, Instant::now());
        if !signals.held.is_zero() {
            self.pause(signals.held);
        }
        if self.pacer.set_rate(signals.per_second) {
            tracing::info!(provider = self.name, per_second = ?signals.per_second, "the provider's rate limit has changed");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, WebhookArg};

    fn line(rate: Option<u32>) -> Line {
        bongsu_ops::telemetry::install_crypto();
        let webhook: WebhookArg = "push=h2c://127.0.0.1:1/push".parse().expect("valid");
        let config = Config::at_database("postgres://localhost/bongsu", webhook);
        let mut provider = config.validate().expect("valid").providers.remove(0);
        provider.common.rate_per_second = rate;
        let adapter = provider.adapter().expect("valid");
        Line::new(ProviderId(1), provider.name, adapter, &provider.common)
    }

    #[test]
    fn a_new_process_and_one_that_was_asked_to_pause_begin_with_a_few_calls() {
        let line = line(None);
        let start = Instant::now();
        assert_eq!(line.allowed_at(start + Duration::from_secs(60)), 16, "nothing was called yet");
        line.count_call();
        let later = Instant::now() + Duration::from_secs(2);
        assert_eq!(line.allowed_at(later), 512);
        line.pause(Duration::from_secs(600));
        let over = line.paused().expect("paused");
        assert_eq!(line.allowed_at(over), 16);
        assert_eq!(line.allowed_at(over + Duration::from_secs(2)), 512);
    }

    #[test]
    fn a_line_with_a_rate_wants_no_more_than_it_will_call_soon() {
        assert_eq!(line(None).wanted(), 516, "a full batch, and the first calls");
        assert_eq!(line(Some(1_000)).wanted(), 200);
        assert_eq!(line(Some(10)).wanted(), 50);
        assert_eq!(line(Some(1_000_000)).wanted(), 516);
        assert!(
            line(Some(10)).wanted_beside(Instant::now()).is_none(),
            "with nothing in hand, there is no beside"
        );
    }
}
