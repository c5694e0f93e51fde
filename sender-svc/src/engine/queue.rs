//! A line's local queue: deliveries waiting for a call, in the order of the fair queue.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bongsu_store::BatchId;
use tokio::sync::Notify;

use super::held::{HeldBatch, Job};

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
}

impl LocalQueue {
    pub fn push(&self, held: Arc<HeldBatch>, jobs: VecDeque<Job>) {
        self.deliveries.fetch_add(jobs.len(), Ordering::Relaxed);
        let mut lanes = self.lanes();
        let lane = if held.lease.attempt == 1 { &mut lanes.fresh } else { &mut lanes.retries };
        // The same batch under a lease that was lost: its deliveries come with the new one.
        let before = lane.keys().find(|(_, id)| *id == held.lease.id).copied();
        if let Some(before) = before.and_then(|key| lane.remove(&key)) {
            self.deliveries.fetch_sub(before.jobs.len(), Ordering::Relaxed);
        }
        let id = held.lease.id;
        let queued = Queued { held, jobs };
        lane.insert((queued.next_rank(), id), queued);
        self.arrived.notify_one();
    }

    /// The next delivery in order; waits for one.
    pub async fn pop(&self) -> Next {
        loop {
            if let Some(next) = self.take() {
                return next;
            }
            self.arrived.notified().await;
        }
    }

    fn take(&self) -> Option<Next> {
        let mut lanes = self.lanes();
        let Lanes { retries, fresh, retries_last } = &mut *lanes;
        for _ in 0..2 {
            *retries_last = !*retries_last;
            let (job, dropped) = if *retries_last { take_of(retries) } else { take_of(fresh) };
            self.deliveries.fetch_sub(dropped + usize::from(job.is_some()), Ordering::Relaxed);
            if let Some((job, rank)) = job {
                return Some(Next { job, rank: (!*retries_last).then_some(rank) });
            }
        }
        None
    }

    /// Deliveries waiting for a call.
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
