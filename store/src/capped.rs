//! Broadcasts with a rate of their own. Their batches lie outside the queue, and leave it a few deliveries at a time, in the
//! transaction that gives away the slots for them: so no sender holds more than it will soon call, and no slot is reserved by
//! one that has nothing to do in it.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::{Connection, PgConnection};

use crate::claim::{ClaimLane, LeasedBatch};
use crate::error::Result;
use crate::ids::{BatchId, BroadcastId, ProviderId, SenderId, Shard};

/// Of a rate, this share is given away. The rest is for calls that begin late in their slots, by 25 ms at most, and for another 50 ms
/// by which some are later than others on their way to the provider.
pub const CAPPED_SHARE: f64 = 0.93;
/// Slots are given away this far ahead at most: what is reserved by a sender that dies is not used.
pub const CAPPED_AHEAD: Duration = Duration::from_secs(1);
/// Where nothing is given away yet, the first slot comes after the time that the answer may take.
const ANSWER_TAKES: Duration = Duration::from_millis(10);

/// A running broadcast with a rate of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CappedBroadcast {
    pub id: BroadcastId,
    /// Calls within any second at most, of all senders together.
    pub per_second: u32,
}

/// What a sender can use of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CappedWant {
    pub broadcast: BroadcastId,
    /// Slots at most.
    pub slots: u32,
    /// Deliveries that the sender holds and has no slot for: they get the first ones.
    pub in_hand: u32,
}

/// What a sender got.
#[derive(Debug, Clone, PartialEq)]
pub struct CappedTaken {
    pub broadcast: BroadcastId,
    /// None where others have what could be given away, or where there was nothing to do.
    pub slots: u32,
    /// From one to the next.
    pub step: Duration,
    /// The database's clock when it gave them away, in seconds since 1970.
    pub at: f64,
    /// From then to the first of them.
    pub begins_in: Duration,
    pub batches: Vec<LeasedBatch>,
}

impl ClaimLane {
    /// The running broadcasts with a rate of their own.
    pub async fn list_capped(&mut self) -> Result<Vec<CappedBroadcast>> {
        self.lane
            .run("list of rates", async |connection| {
                let rows = sqlx::query_file!("queries/capped_list.sql").fetch_all(connection).await?;
                let capped = rows.into_iter().filter_map(|row| {
                    Some(CappedBroadcast {
                        id: row.id,
                        per_second: u32::try_from(row.max_rate_per_second).ok()?,
                    })
                });
                Ok(capped.collect())
            })
            .await
    }

    /// Gives this sender slots of broadcasts with a rate, and leases to it for `lease` what of `providers` it is to call in them.
    /// One that another sender is at is left out. What is returned has been committed; after an error some may have been all the
    /// same ([`ClaimLane::release_beside`]), and its slots are not used.
    pub async fn claim_capped(
        &mut self,
        wants: &[CappedWant],
        providers: &[ProviderId],
        lease: Duration,
    ) -> Result<Vec<CappedTaken>> {
        let shards = self.turns.order(self.store.shards().await?);
        let sender = self.sender;
        self.lane
            .run("claim at a rate", async |connection| {
                let mut tx = connection.begin().await?;
                let mut taking = reserve(&mut tx, wants).await?;
                for shard in shards {
                    claim_in(&mut tx, shard, &mut taking, providers, sender, lease).await?;
                }
                // Only what there is something to do in is given away.
                let taken: Vec<_> = taking.into_iter().map(|taking| taking.taken).collect();
                advance(&mut tx, &taken).await?;
                tx.commit().await?;
                Ok(taken)
            })
            .await
    }
}

/// One broadcast, while it is locked.
struct Taking {
    /// Slots that could be given away beside those used by now.
    left: u32,
    taken: CappedTaken,
}

async fn reserve(tx: &mut PgConnection, wants: &[CappedWant]) -> Result<Vec<Taking>> {
    let broadcasts: Vec<i64> = wants.iter().map(|want| want.broadcast.0).collect();
    let slots: Vec<i32> = wants.iter().map(|want| i32::try_from(want.slots).unwrap_or(i32::MAX)).collect();
    let rows = sqlx::query_file!(
        "queries/capped_reserve.sql",
        &broadcasts,
        &slots,
        CAPPED_SHARE,
        CAPPED_AHEAD.as_secs_f64(),
        ANSWER_TAKES.as_secs_f64()
    )
    .fetch_all(tx)
    .await?;
    let taking = rows.into_iter().map(|row| {
        let granted = u32::try_from(row.slots).unwrap_or(0);
        let in_hand =
            wants.iter().find(|want| want.broadcast == row.broadcast).map_or(0, |want| want.in_hand);
        let for_those_in_hand = granted.min(in_hand);
        Taking {
            left: granted - for_those_in_hand,
            taken: CappedTaken {
                broadcast: row.broadcast,
                slots: for_those_in_hand,
                step: Duration::from_secs_f64(1.0 / (f64::from(row.max_rate_per_second) * CAPPED_SHARE)),
                at: row.at,
                begins_in: Duration::from_secs_f64(row.begins_in.max(0.0)),
                batches: vec![],
            },
        }
    });
    Ok(taking.collect())
}

async fn claim_in(
    tx: &mut PgConnection,
    shard: Shard,
    taking: &mut [Taking],
    providers: &[ProviderId],
    sender: SenderId,
    lease: Duration,
) -> Result<()> {
    let open: HashMap<BroadcastId, u32> =
        taking.iter().filter(|t| t.left > 0).map(|t| (t.taken.broadcast, t.left)).collect();
    if open.is_empty() || providers.is_empty() {
        return Ok(());
    }
    let (broadcasts, most): (Vec<i64>, Vec<i32>) =
        open.into_iter().map(|(id, left)| (id.0, i32::try_from(left).unwrap_or(i32::MAX))).unzip();
    let providers: Vec<i16> = providers.iter().map(|provider| provider.0).collect();
    let batches = sqlx::query_file_as!(
        LeasedBatch,
        "queries/capped_claim.sql",
        shard,
        &broadcasts,
        &most,
        &providers,
        sender.0,
        lease.as_secs_f64()
    )
    .fetch_all(tx)
    .await?;
    for batch in batches {
        if let Some(t) = taking.iter_mut().find(|t| t.taken.broadcast == batch.broadcast) {
            // One that was given back half done has fewer left than this; then a slot is lost.
            let used = batch.size.unsigned_abs().min(t.left);
            (t.left, t.taken.slots) = (t.left - used, t.taken.slots + used);
            t.taken.batches.push(batch);
        }
    }
    Ok(())
}

async fn advance(tx: &mut PgConnection, taken: &[CappedTaken]) -> Result<()> {
    let used: Vec<_> = taken.iter().filter(|t| t.slots > 0).collect();
    if used.is_empty() {
        return Ok(());
    }
    let broadcasts: Vec<i64> = used.iter().map(|t| t.broadcast.0).collect();
    let until: Vec<f64> =
        used.iter().map(|t| (t.begins_in + t.step.mul_f64(f64::from(t.slots))).as_secs_f64()).collect();
    let at: Vec<f64> = used.iter().map(|t| t.at).collect();
    sqlx::query_file!("queries/capped_advance.sql", &broadcasts, &until, &at).execute(tx).await?;
    Ok(())
}
