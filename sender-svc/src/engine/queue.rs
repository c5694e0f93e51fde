//! A line's local queue: deliveries waiting for a call, in rank order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bongsu_store::BatchId;
use tokio::sync::Notify;

use super::held::{HeldBatch, Job};

/// Bounded by what the claim takes: see [`super::line::Line::wanted`].
#[derive(Debug, Default)]
pub struct LocalQueue {
    batches: Mutex<BTreeMap<Order, Queued>>,
    deliveries: AtomicUsize,
    arrived: Notify,
}

/// Retries first (the claim gives them at most half of what is taken), then by rank.
type Order = (bool, i64, BatchId);

#[derive(Debug)]
struct Queued {
    held: Arc<HeldBatch>,
    jobs: VecDeque<Job>,
}

impl LocalQueue {
    pub fn push(&self, held: Arc<HeldBatch>, jobs: VecDeque<Job>) {
        let lease = &held.lease;
        let order = (lease.attempt == 1, lease.rank, lease.id);
        self.deliveries.fetch_add(jobs.len(), Ordering::Relaxed);
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = batches.insert(order, Queued { held, jobs }) {
            // The same batch under a lease that was lost: its deliveries come with the new one.
            self.deliveries.fetch_sub(before.jobs.len(), Ordering::Relaxed);
        }
        self.arrived.notify_one();
    }

    /// The next delivery in order; waits for one.
    pub async fn pop(&self) -> Job {
        loop {
            if let Some(job) = self.take() {
                return job;
            }
            self.arrived.notified().await;
        }
    }

    fn take(&self) -> Option<Job> {
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut first) = batches.first_entry() {
            let queued = first.get_mut();
            let dropped = if queued.held.is_lost() { std::mem::take(&mut queued.jobs).len() } else { 0 };
            self.deliveries.fetch_sub(dropped, Ordering::Relaxed);
            let job = queued.jobs.pop_front();
            if queued.jobs.is_empty() {
                first.remove();
            }
            if job.is_some() {
                self.deliveries.fetch_sub(1, Ordering::Relaxed);
                return job;
            }
        }
        None
    }

    /// Deliveries waiting for a call.
    pub fn len(&self) -> usize {
        self.deliveries.load(Ordering::Relaxed)
    }
}
