//! Fan-out: turning an audience into deliveries and batches, a page per transaction.
//!
//! A page moves the broadcast's cursor in the same transaction that makes its deliveries, so a process that dies repeats
//! nothing and loses nothing. Broadcasts take turns page by page: a small one does not wait behind a huge one.
//!
//! Where a broadcast goes out live, a page makes events for the users of its devices as well ([`live`]), and once all devices have
//! had their turn, more pages make those of users without any.

mod live;

use sqlx::PgConnection;

use crate::broadcast::{AudienceKind, BroadcastState, Priority, Routing};
use crate::connect::{Store, bounded};
use crate::error::{Result, StoreError};
use crate::ids::{BroadcastId, ProviderId, Shard};
use crate::live::Told;
use crate::shards::Shards;

/// Devices in one page: one transaction of some ten milliseconds.
pub(crate) const PAGE_DEVICES: i64 = 10_000;
/// Deliveries in one batch at most.
pub(crate) const BATCH_DELIVERIES: i32 = 500;

pub(crate) use live::PAGE_DEVICES as LIVE_PAGE_DEVICES;

/// What a step of fan-out did.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FanOut {
    /// No broadcast waits for a page, or each is in the hands of another process.
    Idle,
    /// One page was made; `finished` says that it was the broadcast's last, `trace_context` which span asked for the broadcast.
    Page {
        broadcast: BroadcastId,
        deliveries: i64,
        /// Who has a new event.
        told: Told,
        finished: bool,
        trace_context: Option<String>,
    },
}

impl Store {
    /// Makes the next page of the broadcast that waited longest. Any number of processes may call it at the same time.
    pub async fn fan_out_page(&self) -> Result<FanOut> {
        let mut picked = None;
        let mut step = bounded("fan-out", self.one_page(&mut picked)).await;
        if step.as_ref().is_err_and(is_missing_partition) {
            self.ensure_partitions().await?;
            if let Some(id) = picked {
                // One that was scheduled is of a day long past.
                self.ensure_partition_of(id).await?;
            }
            step = bounded("fan-out", self.one_page(&mut picked)).await;
        }
        match (step, picked) {
            (Ok(step), _) => {
                if let FanOut::Page { broadcast, finished: true, .. } = step {
                    self.complete(&[broadcast]).await?;
                }
                Ok(step)
            }
            (Err(error), Some(id)) => {
                // Not picked first again: whatever is wrong with this one must not keep the others waiting.
                let _ = bounded("fan-out", self.let_others_go_first(id)).await;
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
    }

    async fn let_others_go_first(&self, id: BroadcastId) -> Result<()> {
        sqlx::query!("UPDATE broadcast SET fan_out_page_at = clock_timestamp() WHERE id = $1", id.0)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    async fn one_page(&self, picked: &mut Option<BroadcastId>) -> Result<FanOut> {
        let mut tx = self.pool.begin().await?;
        let Some(next) = sqlx::query_file!("queries/fan_out_pick.sql").fetch_optional(&mut *tx).await? else {
            tx.rollback().await?;
            return Ok(FanOut::Idle);
        };
        *picked = Some(next.id);
        let mut page = Page {
            broadcast: next.id,
            kind: next.audience,
            topics: next.topics,
            provider: next.provider,
            after: next.cursor,
            to: next.cursor,
            until: next.until,
            rank: next.rank,
            priority: next.priority,
            shard: next.shard,
            pushes: next.routing.pushes(),
            events: next.routing.is_live() && !next.over,
        };
        self.known_shards.note(Shards(next.shards));
        let made = page.make_next(&mut tx, Shards(next.shards)).await?;
        let finished = made.is_none();
        let made = made.unwrap_or(Made { deliveries: 0, rank: page.rank, told: vec![] });
        let state = if finished { BroadcastState::Delivering } else { BroadcastState::FanningOut };
        sqlx::query_file!(
            "queries/fan_out_advance.sql",
            page.broadcast.0,
            state as _,
            page.provider.0,
            page.to,
            made.rank,
            page.until,
            page.shard
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(FanOut::Page {
            broadcast: page.broadcast,
            deliveries: made.deliveries,
            told: made.told,
            finished,
            trace_context: next.trace_context,
        })
    }
}

/// A range of the audience at one provider, in one shard.
struct Page {
    broadcast: BroadcastId,
    kind: AudienceKind,
    topics: Vec<String>,
    shard: Shard,
    provider: ProviderId,
    /// Device ids, or rows of the explicit list, up to here are done.
    after: i64,
    /// The page's end, included.
    to: i64,
    /// The highest device id that takes part.
    until: i64,
    /// Rank of the broadcast's last batch at this provider, in this shard.
    rank: i64,
    priority: Priority,
    /// Whether devices get a delivery, and users an event.
    pushes: bool,
    events: bool,
}

/// What was made of a page's devices.
struct Batches {
    deliveries: i64,
    /// Rank of the last one.
    rank: i64,
}

/// What a page made.
struct Made {
    deliveries: i64,
    /// Rank of its last batch.
    rank: i64,
    told: Told,
}

impl Page {
    /// Makes the next page: of devices first, then of users who have none. None where nothing is left.
    async fn make_next(&mut self, tx: &mut PgConnection, shards: Shards) -> Result<Option<Made>> {
        if self.has_devices_left() && self.find_next(tx, shards).await? {
            let Batches { deliveries, rank } =
                if self.pushes { self.insert(tx).await? } else { Batches { deliveries: 0, rank: self.rank } };
            let told = if self.events { self.tell_owners(tx).await? } else { vec![] };
            return Ok(Some(Made { deliveries, rank, told }));
        }
        let told = self.tell_the_rest(tx).await?;
        Ok(told.map(|told| Made { deliveries: 0, rank: 0, told }))
    }

    /// Sets the page's end; goes on to the next shard, and behind the last one to the next provider, where this one has nothing
    /// left. False when none has.
    async fn find_next(&mut self, tx: &mut PgConnection, shards: Shards) -> Result<bool> {
        loop {
            let bound = sqlx::query_file_scalar!(
                "queries/fan_out_bound.sql",
                self.broadcast.0,
                self.kind as _,
                self.shard,
                self.provider.0,
                self.after,
                self.until,
                &self.topics,
                if self.events { LIVE_PAGE_DEVICES } else { PAGE_DEVICES }
            )
            .fetch_one(&mut *tx)
            .await?;
            if let Some(bound) = bound {
                self.to = bound;
                return Ok(true);
            }
            // Ranks are a timeline of each provider's own, on which its shards lie side by side: one behind the other, whoever
            // comes later would wait in the first shard for what the last one has been through.
            (self.after, self.to, self.rank) = (0, 0, 0);
            // The provider 0, with which a fan-out begins, has nothing in any.
            if self.provider.0 != 0 && self.shard + 1 < shards.0 {
                self.shard += 1;
                continue;
            }
            let next = sqlx::query_scalar!(
                r#"SELECT min(id) AS "id: ProviderId" FROM provider WHERE id > $1"#,
                self.provider.0
            )
            .fetch_one(&mut *tx)
            .await?;
            let Some(next) = next else { return Ok(false) };
            (self.provider, self.shard) = (next, 0);
        }
    }

    /// Makes the page's deliveries and batches.
    async fn insert(&self, tx: &mut PgConnection) -> Result<Batches> {
        let batches = sqlx::query_file!(
            "queries/fan_out_page.sql",
            self.broadcast.0,
            self.kind as _,
            self.shard,
            self.provider.0,
            self.after,
            self.to,
            self.until,
            &self.topics,
            self.rank,
            BATCH_DELIVERIES,
            self.priority.weight()
        )
        .fetch_all(tx)
        .await?;
        Ok(Batches {
            deliveries: batches.iter().map(|b| i64::from(b.size)).sum(),
            rank: batches.iter().map(|b| b.rank).max().unwrap_or(self.rank),
        })
    }
}

/// Whether an insert failed because the day of the broadcast has no partition yet.
pub(crate) fn is_missing_partition(error: &StoreError) -> bool {
    matches!(error, StoreError::Data(text) if text.contains("no partition of relation"))
}
