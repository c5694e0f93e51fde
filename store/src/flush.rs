//! Recording outcomes: grouped, fenced, in one transaction.
//!
//! An outcome counts only while owner and epoch still hold its batch, and only for a delivery that is still pending at the
//! attempt it answers. Everything else that a flush writes (tallies, dead letters, retries) is made from the outcomes that
//! counted, so that sums are equal everywhere whatever happened before. A flush of several shards is one of these for each.

mod failures;
mod record;
mod retry;
mod sent;
mod unfit;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sqlx::Connection;

use crate::claim::LeasedBatch;
use crate::connect::{Lane, Store};
use crate::delivery::{DeadReason, DeliveryState};
use crate::error::Result;
use crate::ids::{BroadcastId, DeviceId, ProviderId, SenderId, Shard};
use crate::shards::by_shard;

pub use self::failures::KEPT_FAILURES;
pub use self::record::{AWAITING_ACK, SEEN_LIVE};
pub use self::unfit::{Fate, Unfit};

/// What became of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Sent,
    Dead {
        reason: DeadReason,
        /// An HTTP status, or a word of ours.
        code: String,
        /// What the provider said.
        detail: String,
    },
    /// To be tried again, not before `after`.
    Retry {
        after: Duration,
        code: String,
        /// What the provider said.
        detail: String,
        /// Whether the failure counts against the limit of attempts.
        charged: bool,
    },
    /// To be tried again at once, in a batch of its own: its batch ran out in several senders' hands, and nobody knows by
    /// which of its deliveries.
    Alone,
    /// The user is connected, and has until then to acknowledge: to be called after that, unless they did. Nobody was called; the
    /// delivery takes a further attempt number all the same, by which the fence tells its batches apart.
    AwaitAck {
        after: Duration,
    },
    /// A client of the user has acknowledged it: not called.
    SeenLive,
    Expired,
    Skipped,
    Cancelled,
    /// At most once: the call began, and nobody knows how it ended.
    Unconfirmed {
        code: String,
        detail: String,
    },
}

impl Verdict {
    fn state(&self) -> DeliveryState {
        match self {
            Self::Sent => DeliveryState::Sent,
            Self::Dead { .. } => DeliveryState::Dead,
            Self::Retry { .. } | Self::Alone | Self::AwaitAck { .. } => DeliveryState::Pending,
            Self::Expired => DeliveryState::Expired,
            Self::Skipped | Self::SeenLive => DeliveryState::Skipped,
            Self::Cancelled => DeliveryState::Cancelled,
            Self::Unconfirmed { .. } => DeliveryState::Unconfirmed,
        }
    }

    /// Whether it takes the number of its attempt: where the provider was called, and where the delivery goes into another batch,
    /// whose number must be a new one.
    fn takes_number(&self) -> bool {
        match self {
            Self::Sent | Self::Dead { .. } | Self::Retry { .. } | Self::Unconfirmed { .. } => true,
            Self::Alone | Self::AwaitAck { .. } => true,
            Self::Expired | Self::Skipped | Self::SeenLive | Self::Cancelled => false,
        }
    }
}

/// The answer for one delivery.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub batch: LeasedBatch,
    pub device: DeviceId,
    pub verdict: Verdict,
}

/// What is recorded together.
#[derive(Debug, Default, Clone)]
pub struct Flush {
    pub outcomes: Vec<Outcome>,
    /// Batches whose owner has an answer for all it read; their last outcomes are in this flush or were in earlier ones.
    pub closed: Vec<LeasedBatch>,
    /// Devices that are not to be called again.
    pub unfit: Vec<Unfit>,
}

/// What a flush came to.
#[must_use]
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Outcomes that counted.
    pub recorded: usize,
    /// Outcomes dropped because the batch was no longer this sender's.
    pub fenced: usize,
    /// Outcomes of own batches whose delivery had been settled or moved on.
    pub stale: usize,
    /// Of those that counted, dead letters by why.
    pub dead: BTreeMap<(ProviderId, DeadReason), u64>,
    /// Broadcasts of which a batch was closed: ask [`Store::complete_broadcasts`] for them.
    pub touched: BTreeSet<BroadcastId>,
}

/// A connection of its own for flushes.
#[derive(Debug)]
pub struct FlushLane {
    lane: Lane,
    sender: SenderId,
}

impl Store {
    pub fn flush_lane(&self, sender: SenderId) -> FlushLane {
        FlushLane { lane: self.keyed_lane(), sender }
    }

    /// Ends those of `ids` that have nothing left to do, and returns them.
    pub async fn complete_broadcasts(&self, ids: &[BroadcastId]) -> Result<Vec<BroadcastId>> {
        self.complete(ids).await
    }
}

impl Flush {
    /// What of it is in which shard.
    fn parts(&self) -> BTreeMap<Shard, Cow<'_, Self>> {
        let batches = self.outcomes.iter().map(|outcome| &outcome.batch).chain(&self.closed);
        let shards: BTreeSet<Shard> =
            batches.map(|batch| batch.shard).chain(self.unfit.iter().map(|unfit| unfit.shard)).collect();
        if shards.len() == 1 {
            return shards.into_iter().map(|shard| (shard, Cow::Borrowed(self))).collect();
        }
        let mut outcomes = by_shard(self.outcomes.iter().cloned(), |outcome| outcome.batch.shard);
        let mut closed = by_shard(self.closed.iter().copied(), |batch| batch.shard);
        let mut unfit = by_shard(self.unfit.iter().cloned(), |unfit| unfit.shard);
        let mut part = |shard| Self {
            outcomes: outcomes.remove(&shard).unwrap_or_default(),
            closed: closed.remove(&shard).unwrap_or_default(),
            unfit: unfit.remove(&shard).unwrap_or_default(),
        };
        shards.into_iter().map(|shard| (shard, Cow::Owned(part(shard)))).collect()
    }
}

impl FlushLane {
    /// Records a flush, a transaction for each shard: all of it, or on an error not all, and then it can be tried again whole.
    /// What did commit, although its answer or that of a later shard was lost, is recorded nowhere twice; broadcasts that it
    /// touched are then completed by the sweep.
    pub async fn flush(&mut self, flush: &Flush) -> Result<Flushed> {
        let mut flushed = Flushed::default();
        for (shard, part) in flush.parts() {
            let done = self.flush_in(shard, &part).await?;
            flushed.recorded += done.recorded;
            flushed.fenced += done.fenced;
            flushed.stale += done.stale;
            for (of, dead) in done.dead {
                *flushed.dead.entry(of).or_default() += dead;
            }
            flushed.touched.extend(done.touched);
        }
        Ok(flushed)
    }

    async fn flush_in(&mut self, shard: Shard, flush: &Flush) -> Result<Flushed> {
        let sender = self.sender;
        self.lane
            .run("flush", async |connection| {
                let mut tx = connection.begin().await?;
                let flushed = record::record(&mut tx, shard, sender, flush).await?;
                tx.commit().await?;
                Ok(flushed)
            })
            .await
    }

    /// Notes that these deliveries of an at-most-once broadcast are about to be called, and returns for each whether it may
    /// be: not where the lease was lost. On an error it can be asked again.
    pub async fn mark_sending(&mut self, deliveries: &[(LeasedBatch, DeviceId)]) -> Result<Vec<bool>> {
        let mut may = vec![false; deliveries.len()];
        for (shard, indexes) in by_shard(0..deliveries.len(), |i| deliveries[*i].0.shard) {
            let of_shard: Vec<_> = indexes.iter().map(|i| deliveries[*i]).collect();
            for (i, yes) in indexes.into_iter().zip(self.mark_sending_in(shard, &of_shard).await?) {
                may[i] = yes;
            }
        }
        Ok(may)
    }

    async fn mark_sending_in(
        &mut self,
        shard: Shard,
        deliveries: &[(LeasedBatch, DeviceId)],
    ) -> Result<Vec<bool>> {
        let leases: BTreeMap<i64, i64> = deliveries.iter().map(|(b, _)| (b.id.0, b.epoch)).collect();
        let (ids, epochs): (Vec<i64>, Vec<i64>) = leases.into_iter().unzip();
        let batches: Vec<i64> = deliveries.iter().map(|(b, _)| b.id.0).collect();
        let devices: Vec<i64> = deliveries.iter().map(|(_, d)| d.0).collect();
        let sender = self.sender.0;
        self.lane
            .run("mark", async |connection| {
                let marked = sqlx::query_file_scalar!(
                    "queries/delivery_mark_sending.sql",
                    shard,
                    sender,
                    &ids,
                    &epochs,
                    &batches,
                    &devices
                )
                .fetch_all(connection)
                .await?;
                let mut may = vec![false; deliveries.len()];
                for n in marked {
                    if let Some(slot) = usize::try_from(n - 1).ok().and_then(|i| may.get_mut(i)) {
                        *slot = true;
                    }
                }
                Ok(may)
            })
            .await
    }

    /// Says goodbye to the server.
    pub async fn close(&mut self) {
        self.lane.close().await;
    }
}
