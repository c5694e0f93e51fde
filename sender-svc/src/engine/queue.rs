//! A line's local queue: deliveries waiting for a call, in the order of the fair queue. Those of a broadcast with a rate of its own
//! lie apart, and take part when there is a slot for one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bongsu_store::{BatchId, BroadcastId};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::held::{HeldBatch, Job};
use super::pace::Counted;

/// While deliveries wait for slots of their broadcast, it is looked at least this often whether one may go.
const LOOK: Duration = Duration::from_millis(100);
/// What must be noted first (at most once) is taken so long before its slot.
const NOTE_AHEAD: Duration = Duration::from_millis(100);

/// Bounded by what the claim takes: see [`super::line::Line::wanted`].
#[derive(Debug, Default)]
pub struct LocalQueue {
    lanes: Mutex<Lanes>,
    deliveries: AtomicUsize,
    arrived: Notify,
}

/// Retries and fresh work take turns while there are both: neither waits for the end of the other.
#[derive(Debug, Default)]
struct Lanes {
    retries: Lane,
    fresh: Lane,
    /// Fresh work and retries of broadcasts with a rate of their own.
    capped: BTreeMap<BroadcastId, Lane>,
    retries_last: bool,
}

/// Batches by the rank of their next delivery: a batch ends at its rank, and its deliveries are evenly apart. So one that was
/// claimed later, of a broadcast that is more urgent, goes before the rest of one that has begun.
type Lane = BTreeMap<(i64, BatchId), Queued>;

#[derive(Debug)]
struct Queued {
    held: Arc<HeldBatch>,
    jobs: VecDeque<Job>,
}

impl Queued {
    fn next_rank(&self) -> i64 {
        let left = i64::try_from(self.jobs.len()).unwrap_or(i64::MAX);
        self.held.lease.rank.saturating_sub(left.saturating_mul(self.held.work.rank_step()))
    }
}

/// What is to be called next.
#[derive(Debug)]
pub struct Next {
    pub job: Job,
    /// How far the fair queue has come with it; `None` for a retry, which has its turn whatever its rank.
    pub rank: Option<i64>,
    /// Of a broadcast with a rate of its own: it has yet to get its slot.
    pub place: Option<Counted>,
}

impl LocalQueue {
    pub fn push(&self, held: Arc<HeldBatch>, jobs: VecDeque<Job>) {
        let capped = held.work.cap.is_some();
        let mut lanes = self.lanes();
        let lane = match (capped, held.lease.attempt) {
            (true, _) => lanes.capped.entry(held.work.id).or_default(),
            (false, 1) => &mut lanes.fresh,
            (false, _) => &mut lanes.retries,
        };
        // The same batch under a lease that was lost: its deliveries come with the new one.
        let before = lane.keys().find(|(_, id)| *id == held.lease.id).copied();
        let before = before.and_then(|key| lane.remove(&key)).map_or(0, |before| before.jobs.len());
        if !capped {
            self.deliveries.fetch_add(jobs.len(), Ordering::Relaxed);
            self.deliveries.fetch_sub(before, Ordering::Relaxed);
        }
        let id = held.lease.id;
        let queued = Queued { held, jobs };
        lane.insert((queued.next_rank(), id), queued);
        self.arrived.notify_one();
    }

    /// The next delivery in order; waits for one. Where no call may start, none waits for a slot.
    pub async fn pop(&self, is_closed: impl Fn() -> bool) -> Next {
        loop {
            match self.take(is_closed(), Instant::now()) {
                Ok(next) => return next,
                Err(None) => self.arrived.notified().await,
                Err(Some(again)) => {
                    let _ = tokio::time::timeout_at(again, self.arrived.notified()).await;
                }
            }
        }
    }

    /// Slots came, perhaps for what is here.
    pub fn look_again(&self) {
        self.arrived.notify_one();
    }

    /// The next delivery, or when to look again where none is sure to come before.
    fn take(&self, closed: bool, now: Instant) -> Result<Next, Option<Instant>> {
        let mut lanes = self.lanes();
        let capped = next_capped(&lanes.capped, closed, now);
        if let Ok((rank, broadcast)) = capped
            && lanes.fresh.first_key_value().is_none_or(|(_, first)| rank <= first.next_rank())
            && let Some(next) = lanes.take_capped(broadcast)
        {
            return Ok(next);
        }
        if let Some(next) = self.take_uncapped(&mut lanes) {
            return Ok(next);
        }
        match capped {
            Ok((_, broadcast)) => lanes.take_capped(broadcast).ok_or(Some(now)),
            Err(again) => Err(again),
        }
    }

    fn take_uncapped(&self, lanes: &mut Lanes) -> Option<Next> {
        let Lanes { retries, fresh, retries_last, .. } = lanes;
        for _ in 0..2 {
            *retries_last = !*retries_last;
            let (job, dropped) = if *retries_last { take_of(retries) } else { take_of(fresh) };
            self.deliveries.fetch_sub(dropped + usize::from(job.is_some()), Ordering::Relaxed);
            if let Some((job, rank)) = job {
                return Some(Next { job, rank: (!*retries_last).then_some(rank), place: None });
            }
        }
        None
    }

    /// Deliveries of a broadcast with a rate of its own.
    pub fn capped(&self, broadcast: BroadcastId) -> usize {
        self.lanes()
            .capped
            .get(&broadcast)
            .map_or(0, |lane| lane.values().map(|queued| queued.jobs.len()).sum())
    }

    /// Deliveries waiting for a call, but for those that wait for a slot of their broadcast.
    pub fn len(&self) -> usize {
        self.deliveries.load(Ordering::Relaxed)
    }

    /// Of these, retries.
    pub fn retries(&self) -> usize {
        self.lanes().retries.values().map(|queued| queued.jobs.len()).sum()
    }

    /// The greatest rank of the fresh work here.
    pub fn greatest_rank(&self) -> Option<i64> {
        self.lanes().fresh.values().map(|queued| queued.held.lease.rank).max()
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lanes {
    fn take_capped(&mut self, broadcast: BroadcastId) -> Option<Next> {
        let lane = self.capped.get_mut(&broadcast)?;
        let (taken, _) = take_of(lane);
        if lane.is_empty() {
            self.capped.remove(&broadcast);
        }
        let (job, rank) = taken?;
        let place = job.held.work.cap.as_ref().map(|cap| cap.place());
        Some(Next { rank: (job.held.lease.attempt == 1).then_some(rank), job, place })
    }
}

/// Of the broadcasts with a rate of their own, the one that is next, with its rank; or when to look again.
fn next_capped(
    capped: &BTreeMap<BroadcastId, Lane>,
    closed: bool,
    now: Instant,
) -> Result<(i64, BroadcastId), Option<Instant>> {
    let (mut next, mut again): (Option<(i64, BroadcastId)>, Option<Instant>) = (None, None);
    for (broadcast, lane) in capped {
        let Some((_, first)) = lane.first_key_value() else { continue };
        let work = &first.held.work;
        let Some(cap) = &work.cap else { continue };
        let ahead = if work.at_most_once { NOTE_AHEAD } else { Duration::ZERO };
        let slot = cap.free_slot(now);
        let due = slot.is_some_and(|slot| slot <= now + ahead);
        if closed || work.is_stopped() || first.held.is_lost() || due {
            let candidate = (first.next_rank(), *broadcast);
            next = Some(next.map_or(candidate, |next| next.min(candidate)));
        } else {
            let wait = slot.map_or(now + LOOK, |slot| slot - ahead).min(now + LOOK);
            again = Some(again.map_or(wait, |again| again.min(wait)));
        }
    }
    next.ok_or(again)
}

/// The next delivery of a lane with its rank, and how many were dropped, since their batch is somebody else's now.
fn take_of(lane: &mut Lane) -> (Option<(Job, i64)>, usize) {
    let mut dropped = 0;
    while let Some(mut first) = lane.first_entry() {
        let (id, queued) = (first.key().1, first.get_mut());
        if queued.held.is_lost() {
            dropped += queued.jobs.len();
            first.remove();
            continue;
        }
        let rank = queued.next_rank();
        // It has moved on since it was put here: only where that is past another does its place change.
        if lane.keys().nth(1).is_some_and(|second| *second < (rank, id)) {
            if let Some((_, queued)) = lane.pop_first() {
                lane.insert((rank, id), queued);
            }
            continue;
        }
        let Some(mut first) = lane.first_entry() else { break };
        let job = first.get_mut().jobs.pop_front();
        if first.get().jobs.is_empty() {
            first.remove();
        }
        if let Some(job) = job {
            return (Some((job, rank)), dropped);
        }
    }
    (None, dropped)
}
