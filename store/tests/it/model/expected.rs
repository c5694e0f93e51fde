//! What should be: deliveries with state and attempts, and who may record what.

use std::collections::{BTreeMap, BTreeSet};

use bongsu_store::{BatchId, BroadcastId, DeliveryState, DeviceId, Verdict};

pub type Key = (BroadcastId, DeviceId);

/// A lease as its holder got it.
#[derive(Debug, Clone)]
pub struct Lease {
    pub batch: BatchId,
    pub epoch: i64,
    pub broadcast: BroadcastId,
    pub attempt: i32,
    /// What was open in the batch when it was claimed.
    pub deliveries: BTreeSet<DeviceId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    pub state: DeliveryState,
    pub attempts: i32,
}

impl Delivery {
    pub fn is_open(self) -> bool {
        matches!(self.state, DeliveryState::Pending | DeliveryState::Sending)
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Broadcast {
    pub at_most_once: bool,
    /// It waits for its time.
    pub scheduled: bool,
    pub paused: bool,
    pub cancelled: bool,
    pub expired: bool,
    /// Its batches are gone.
    pub is_final: bool,
}

#[derive(Debug, Default)]
pub struct Model {
    pub broadcasts: BTreeMap<BroadcastId, Broadcast>,
    pub deliveries: BTreeMap<Key, Delivery>,
    /// The present holder of each leased batch, its lease, and whether that ran out.
    pub leases: BTreeMap<BatchId, (usize, Lease, bool)>,
    /// Dead letters that no replay has taken up.
    pub letters: BTreeSet<Key>,
}

impl Model {
    pub fn holds(&self, sender: usize, lease: &Lease) -> bool {
        self.leases
            .get(&lease.batch)
            .is_some_and(|(holder, held, _)| *holder == sender && held.epoch == lease.epoch)
    }

    /// Whether an outcome counts, and if it does, what becomes of the delivery.
    pub fn record(&mut self, sender: usize, lease: &Lease, device: DeviceId, verdict: &Verdict) -> Recorded {
        let batch_exists = self.broadcasts.get(&lease.broadcast).is_some_and(|b| !b.is_final);
        let may = batch_exists && (self.holds(sender, lease) || *verdict == Verdict::Sent);
        if !may {
            return Recorded::Fenced;
        }
        let Some(delivery) = self.deliveries.get_mut(&(lease.broadcast, device)) else {
            return Recorded::Stale;
        };
        if !delivery.is_open() || delivery.attempts != lease.attempt - 1 {
            return Recorded::Stale;
        }
        let (state, called) = match verdict {
            Verdict::Sent => (DeliveryState::Sent, true),
            Verdict::Dead { .. } => (DeliveryState::Dead, true),
            Verdict::Retry { .. } | Verdict::Alone | Verdict::AwaitAck { .. } => {
                (DeliveryState::Pending, true)
            }
            Verdict::Unconfirmed { .. } => (DeliveryState::Unconfirmed, true),
            Verdict::Expired => (DeliveryState::Expired, false),
            Verdict::Skipped | Verdict::SeenLive => (DeliveryState::Skipped, false),
            Verdict::Cancelled => (DeliveryState::Cancelled, false),
        };
        *delivery = Delivery { state, attempts: lease.attempt - i32::from(!called) };
        if matches!(state, DeliveryState::Dead | DeliveryState::Unconfirmed) {
            self.letters.insert((lease.broadcast, device));
        }
        Recorded::Counted
    }

    /// Whether the delivery may be noted as about to be called.
    pub fn mark(&mut self, sender: usize, lease: &Lease, device: DeviceId) -> bool {
        let holds = self.holds(sender, lease);
        let delivery = self.deliveries.get_mut(&(lease.broadcast, device)).expect("it was read");
        let may = holds && delivery.is_open() && delivery.attempts == lease.attempt - 1;
        if may {
            delivery.state = DeliveryState::Sending;
        }
        may
    }

    /// What the sweep does to broadcasts that were cancelled or have expired, and to paused ones.
    pub fn sweep(&mut self) {
        let ended: Vec<(BroadcastId, DeliveryState)> = self
            .broadcasts
            .iter()
            .filter(|(_, b)| !b.is_final && (b.cancelled || b.expired))
            .map(|(id, b)| (*id, if b.cancelled { DeliveryState::Cancelled } else { DeliveryState::Expired }))
            .collect();
        for (id, state) in ended {
            // What a live lease covers is its owner's to settle.
            let live: BTreeSet<(DeviceId, i32)> = self
                .leases
                .values()
                .filter(|(_, lease, ran_out)| lease.broadcast == id && !ran_out)
                .flat_map(|(_, lease, _)| lease.deliveries.iter().map(|d| (*d, lease.attempt - 1)))
                .collect();
            for ((broadcast, device), delivery) in &mut self.deliveries {
                if *broadcast != id || !delivery.is_open() || live.contains(&(*device, delivery.attempts)) {
                    continue;
                }
                if delivery.state == DeliveryState::Sending {
                    *delivery =
                        Delivery { state: DeliveryState::Unconfirmed, attempts: delivery.attempts + 1 };
                    self.letters.insert((*broadcast, *device));
                } else {
                    delivery.state = state;
                }
            }
            self.leases.retain(|_, (_, lease, ran_out)| lease.broadcast != id || !*ran_out);
        }
        let paused = |b: &Broadcast| b.paused && !b.cancelled && !b.expired;
        let broadcasts = &self.broadcasts;
        self.leases.retain(|_, (_, lease, ran_out)| !(*ran_out && paused(&broadcasts[&lease.broadcast])));
    }
}

/// What became of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    Counted,
    Fenced,
    Stale,
}
