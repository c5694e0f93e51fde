//! Sweeps: what no owner will do. They look at the state as it is, so running them twice, or by several processes at once,
//! does no harm, and a process that dies in the middle leaves nothing but work for the next one.

mod open;

use std::time::Duration;

use sqlx::{Connection, PgConnection};

use open::OpenBroadcasts;

use crate::connect::{Lane, Store, bounded};
use crate::delivery::DeliveryState;
use crate::error::Result;
use crate::ids::{BatchId, BroadcastId, Shard};
use crate::shards::Shards;

/// Batches settled in one transaction.
const STEP_BATCHES: i64 = 20;
/// Batches held, or offered again, in one statement.
const STEP_HOLD: i64 = 1_000;
/// After a step with nothing to do, while the round goes on: so many times as long as it took. Where a million broadcasts are open,
/// because they are scheduled or a provider is parked, a round takes a minute instead of all that a processor has.
const REST_SHARE: u32 = 4;

/// What one step of a sweep did.
#[must_use]
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Swept {
    /// Deliveries that ended `cancelled` or `expired`.
    pub settled: i64,
    /// Broadcasts that became final.
    pub completed: Vec<BroadcastId>,
    /// Whether there is probably more to do for the broadcasts that this step looked at. The next one looks at the same.
    pub more: bool,
    /// Whether each was looked at that was open when the round began.
    pub round_over: bool,
}

impl Swept {
    /// For how long to do nothing after this step, which `took` so long; between rounds it is `every`.
    pub fn pause(&self, took: Duration, every: Duration) -> Duration {
        if self.more {
            Duration::ZERO
        } else if self.round_over {
            every
        } else {
            every.min(took * REST_SHARE)
        }
    }
}

/// A connection of its own for sweeps.
#[derive(Debug)]
pub struct SweepLane {
    lane: Lane,
    store: Store,
    open: OpenBroadcasts,
}

impl Store {
    pub fn sweep_lane(&self) -> SweepLane {
        SweepLane { lane: self.lane(), store: self.clone(), open: OpenBroadcasts::default() }
    }
}

impl SweepLane {
    /// Of the next open broadcasts: settles some unleased batches of cancelled and expired ones, holds the rest of them and those of
    /// paused ones, offers those of resumed ones, and completes what has nothing left to do.
    pub async fn sweep(&mut self) -> Result<Swept> {
        let Self { lane, store, open } = self;
        let shards = lane.run("settings", async |connection| store.read_shards(connection).await).await?;
        let ids = lane.run("open broadcasts", async |connection| open.step(connection).await).await?;
        if ids.is_empty() {
            return Ok(Swept { round_over: open.is_round_over(), ..Swept::default() });
        }
        let (more, settled) = self.settle(shards, &ids).await?;
        let hold = async |connection: &mut PgConnection| hold_and_offer(connection, shards, &ids).await;
        let moved = self.lane.run("hold", hold).await?;
        let pool = &self.store.pool;
        let done = bounded("sweep", async {
            Ok(sqlx::query_file_scalar!("queries/sweep_complete.sql", &ids).fetch_all(pool).await?)
        })
        .await?;
        let completed = if done.is_empty() { vec![] } else { self.store.complete(&done).await? };
        let more = more || moved >= STEP_HOLD as u64;
        if more {
            self.open.stay(ids.len());
        }
        Ok(Swept { settled, completed, more, round_over: self.open.is_round_over() })
    }

    /// Drops senders from the list that were gone long ago.
    pub async fn forget_senders(&mut self) -> Result<()> {
        self.lane
            .run("forget senders", async |connection| {
                sqlx::query_file!("queries/sender_forget.sql").execute(connection).await?;
                Ok(())
            })
            .await
    }

    /// Whether there is more to settle in a shard, and how many deliveries were.
    async fn settle(&mut self, shards: Shards, open: &[i64]) -> Result<(bool, i64)> {
        self.lane
            .run("sweep", async |connection| {
                let ended = sqlx::query_file_scalar!("queries/sweep_ended.sql", open)
                    .fetch_all(&mut *connection)
                    .await?;
                if ended.is_empty() {
                    return Ok((false, 0));
                }
                let (mut more, mut settled) = (false, 0);
                for shard in shards.all() {
                    let (batches, deliveries) = settle_in(connection, shard, &ended).await?;
                    more |= batches == STEP_BATCHES as usize;
                    settled += deliveries;
                }
                Ok((more, settled))
            })
            .await
    }
}

/// Settles some batches of the `ended` broadcasts. Returns how many, and of how many deliveries.
async fn settle_in(connection: &mut PgConnection, shard: Shard, ended: &[i64]) -> Result<(usize, i64)> {
    let mut tx = connection.begin().await?;
    let found =
        sqlx::query_file!("queries/sweep_lock.sql", shard, STEP_BATCHES, ended).fetch_all(&mut *tx).await?;
    let ids: Vec<i64> = found.iter().map(|r| r.id.0).collect();
    let states: Vec<DeliveryState> = found.iter().map(|r| r.state).collect();
    let swept =
        sqlx::query_file!("queries/sweep_settle.sql", shard, &ids, &states as _).fetch_all(&mut *tx).await?;
    tx.commit().await?;
    Ok((swept.len(), swept.iter().map(|r| i64::from(r.deliveries)).sum()))
}

/// Of these broadcasts, batches of paused and ended ones leave the queue, those of resumed ones come back. Returns the largest of these
/// numbers.
pub(crate) async fn hold_and_offer(
    connection: &mut PgConnection,
    shards: Shards,
    broadcasts: &[i64],
) -> Result<u64> {
    let mut most = 0;
    for shard in shards.all() {
        let held = sqlx::query_file!("queries/sweep_hold.sql", shard, STEP_HOLD, broadcasts)
            .execute(&mut *connection)
            .await?;
        let offered = sqlx::query_file!("queries/sweep_unhold.sql", shard, STEP_HOLD, broadcasts)
            .execute(&mut *connection)
            .await?;
        most = most.max(held.rows_affected()).max(offered.rows_affected());
    }
    Ok(most)
}
