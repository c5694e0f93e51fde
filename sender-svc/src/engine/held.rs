//! What this sender holds: leased batches, the broadcasts they belong to, and until when calls may start.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bongsu_ops::trace::Traceparent;
use bongsu_store::{
    BatchId, BroadcastId, DeviceId, Flags, LeasedBatch, Message, Priority, ProviderId, Target, Work,
};
use tokio::time::Instant;

use super::pace::Pacer;
use crate::provider::{Adapter, Brief, Prepared};

/// A broadcast stays known this long after its last batch, so that the next batch need not read it again.
const KEEP_BROADCAST: Duration = Duration::from_secs(5);

/// A broadcast that calls are made for.
#[derive(Debug)]
pub struct BroadcastWork {
    pub id: BroadcastId,
    /// The id that providers know, and devices.
    pub origin: BroadcastId,
    /// Whether a delivery that may have been accepted must not be called again.
    pub at_most_once: bool,
    /// Its own rate, where it has one: no call of it begins without a slot of this.
    pub cap: Option<Pacer>,
    /// How long connected users have to acknowledge before the push goes out, where it waits for that.
    pub ack_timeout: Option<Duration>,
    /// The span that asked for it, where it is sampled.
    pub trace: Option<Traceparent>,
    message: Message,
    priority: Priority,
    /// What all calls to a provider have in common, built once.
    prepared: Mutex<Vec<(ProviderId, Arc<Prepared>)>>,
    /// By our monotonic clock, counted from what the database said was left.
    expires_at: Instant,
    cancelled: AtomicBool,
    paused: AtomicBool,
}

impl BroadcastWork {
    fn new(work: &Work) -> Self {
        Self {
            id: work.id,
            origin: work.origin,
            at_most_once: work.at_most_once,
            cap: work.max_rate_per_second.map(Pacer::of_broadcast),
            ack_timeout: work.ack_timeout,
            trace: work.trace_context.as_deref().and_then(Traceparent::of),
            message: work.message.clone(),
            priority: work.priority,
            prepared: Mutex::default(),
            expires_at: Instant::now() + work.time_left,
            cancelled: AtomicBool::new(work.cancelled),
            paused: AtomicBool::new(work.paused),
        }
    }

    /// The broadcast in the form that a provider takes.
    fn prepared(&self, provider: ProviderId, adapter: &Adapter) -> Arc<Prepared> {
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = prepared.iter().find(|(id, _)| *id == provider) {
            return Arc::clone(found);
        }
        let brief = Brief { origin: self.origin, message: &self.message, priority: self.priority };
        let new = Arc::new(adapter.prepare(brief));
        prepared.push((provider, Arc::clone(&new)));
        new
    }

    /// How far in virtual time its deliveries are apart.
    pub fn rank_step(&self) -> i64 {
        self.priority.rank_step()
    }

    /// Until it expires.
    pub fn time_left(&self) -> Duration {
        self.expires_at.saturating_duration_since(Instant::now())
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Whether no call of it is to be made any more, or now: then its deliveries need no slot.
    pub fn is_stopped(&self) -> bool {
        self.is_cancelled() || self.is_paused() || self.is_expired()
    }

    pub fn is_expired(&self) -> bool {
        Instant::now() >= self.expires_at
    }
}

/// A batch under lease.
#[derive(Debug)]
pub struct HeldBatch {
    pub lease: LeasedBatch,
    pub work: Arc<BroadcastWork>,
    pub prepared: Arc<Prepared>,
    /// Deliveries that were read and have no recorded answer yet.
    unanswered: AtomicUsize,
    /// No call may start at or after this: microseconds of [`Holdings::epoch`].
    start_before: AtomicU64,
    lost: AtomicBool,
    /// Whether a call of it has a span already.
    traced: AtomicBool,
}

impl HeldBatch {
    /// Whether somebody else has it now.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// The span that a call made now continues, if it is to have one: of a batch the first, so that calls by the million are
    /// spans by the thousand.
    pub fn trace_call(&self) -> Option<&Traceparent> {
        let trace = self.work.trace.as_ref()?;
        (!self.traced.swap(true, Ordering::Relaxed)).then_some(trace)
    }

    /// Counts one answer. True for the last one: then the batch can be closed.
    pub fn count_answer(&self) -> bool {
        self.unanswered.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

/// One call to make.
#[derive(Debug)]
pub struct Job {
    pub held: Arc<HeldBatch>,
    pub device: DeviceId,
    pub target: Target,
}

/// All batches of this sender.
#[derive(Debug)]
pub struct Holdings {
    epoch: Instant,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    batches: HashMap<BatchId, Arc<HeldBatch>>,
    broadcasts: HashMap<BroadcastId, (Arc<BroadcastWork>, Instant)>,
}

impl Holdings {
    pub fn new() -> Self {
        Self { epoch: Instant::now(), inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is a single map operation: a panic elsewhere leaves nothing half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The broadcasts of `ids` that are known here, which keeps them so, and the ids of the others.
    pub fn known_broadcasts(
        &self,
        ids: impl Iterator<Item = BroadcastId>,
    ) -> (Vec<Arc<BroadcastWork>>, Vec<BroadcastId>) {
        let inner = self.lock();
        let ids: BTreeSet<_> = ids.collect();
        let (mut known, mut unknown) = (vec![], vec![]);
        for id in ids {
            match inner.broadcasts.get(&id) {
                Some((work, _)) => known.push(work.clone()),
                None => unknown.push(id),
            }
        }
        (known, unknown)
    }

    pub fn broadcast(&self, id: BroadcastId) -> Option<Arc<BroadcastWork>> {
        self.lock().broadcasts.get(&id).map(|(work, _)| work.clone())
    }

    /// Takes broadcasts in; they stay as long as what is returned.
    pub fn learn_broadcasts(&self, works: &[Work]) -> Vec<Arc<BroadcastWork>> {
        let mut inner = self.lock();
        let works = works.iter().map(|work| Arc::new(BroadcastWork::new(work)));
        works.inspect(|work| drop(inner.broadcasts.insert(work.id, (work.clone(), Instant::now())))).collect()
    }

    /// Takes a batch in, of which `unanswered` deliveries were read, to be called by way of `adapter`. `None` where its broadcast is not known.
    pub fn hold(
        &self,
        lease: LeasedBatch,
        unanswered: usize,
        start_before: Instant,
        adapter: &Adapter,
    ) -> Option<Arc<HeldBatch>> {
        let mut inner = self.lock();
        let (work, used) = inner.broadcasts.get_mut(&lease.broadcast)?;
        *used = Instant::now();
        let held = Arc::new(HeldBatch {
            lease,
            prepared: work.prepared(lease.provider, adapter),
            work: work.clone(),
            unanswered: AtomicUsize::new(unanswered),
            start_before: AtomicU64::new(self.micros(start_before)),
            lost: AtomicBool::new(false),
            traced: AtomicBool::new(false),
        });
        if let Some(before) = inner.batches.insert(lease.id, held.clone()) {
            // A lease of ours that ran out, and came back to us: what was queued under it comes with the new one.
            before.lost.store(true, Ordering::Relaxed);
        }
        Some(held)
    }

    /// Forgets batches that are closed.
    pub fn forget<'a>(&self, closed: impl Iterator<Item = &'a LeasedBatch>) {
        let mut inner = self.lock();
        for lease in closed {
            // Another lease of the same batch may have come in meanwhile.
            if inner.batches.get(&lease.id).is_some_and(|held| held.lease.epoch == lease.epoch) {
                inner.batches.remove(&lease.id);
            }
        }
    }

    pub fn leases(&self) -> Vec<LeasedBatch> {
        self.lock().batches.values().map(|held| held.lease).collect()
    }

    /// Those that calls are made for.
    pub fn broadcasts(&self) -> Vec<BroadcastId> {
        let inner = self.lock();
        inner
            .broadcasts
            .values()
            .filter(|(work, _)| Arc::strong_count(work) > 1)
            .map(|(work, _)| work.id)
            .collect()
    }

    /// After a renewal of `asked` of which `kept` were still ours: extends those, and gives up the others. Returns how many
    /// were lost.
    pub fn renewed(&self, asked: &[LeasedBatch], kept: &[BatchId], start_before: Instant) -> usize {
        let micros = self.micros(start_before);
        let kept: std::collections::HashSet<_> = kept.iter().collect();
        let mut inner = self.lock();
        let mut lost = 0;
        for lease in asked {
            let Some(held) = inner.batches.get(&lease.id).filter(|h| h.lease.epoch == lease.epoch) else {
                continue; // closed meanwhile
            };
            if kept.contains(&lease.id) {
                held.start_before.store(micros, Ordering::Relaxed);
            } else {
                held.lost.store(true, Ordering::Relaxed);
                inner.batches.remove(&lease.id);
                lost += 1;
            }
        }
        lost
    }

    /// Takes in the flags of the broadcasts that were `asked` for; those without one have none.
    pub fn heed(&self, asked: &[BroadcastId], flags: &[Flags]) {
        let inner = self.lock();
        for (work, _) in asked.iter().filter_map(|id| inner.broadcasts.get(id)) {
            let flags = flags.iter().find(|flags| flags.id == work.id);
            work.paused.store(flags.is_some_and(|f| f.paused), Ordering::Relaxed);
            // There is no way back from this one.
            work.cancelled.fetch_or(flags.is_some_and(|f| f.cancelled), Ordering::Relaxed);
        }
    }

    /// Forgets broadcasts that no batch and no call needs; a paused one at once, since nobody would notice its resumption.
    pub fn forget_idle_broadcasts(&self) {
        self.lock().broadcasts.retain(|_, (work, used)| {
            Arc::strong_count(work) > 1 || (used.elapsed() < KEEP_BROADCAST && !work.is_paused())
        });
    }

    /// Whether the lease lasts long enough for a call that starts now.
    pub fn lease_allows_start(&self, held: &HeldBatch) -> bool {
        self.micros(Instant::now()) < held.start_before.load(Ordering::Relaxed)
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.epoch).as_micros()).unwrap_or(u64::MAX)
    }
}
