//! Purging dead letters because an operator says so, in small steps. Deliveries and tallies go on saying what happened; that a
//! failed delivery has no dead letter any more is counted, so that the books still balance.

use sqlx::{Postgres, Transaction};

use crate::answers::DeadLetterPlace;
use crate::connect::{Store, bounded};
use crate::error::Result;
use crate::ids::{BroadcastId, DeviceId, ProviderId, Shard};
use crate::replay::DeadLetterMatch;

/// Dead letters that one step looks at: some ten milliseconds.
pub const PURGE_STEP: i64 = 1_000;

/// Which dead letters to purge.
#[derive(Debug, Clone)]
pub struct PurgeFilter {
    /// None: of all broadcasts.
    pub broadcast: Option<BroadcastId>,
    pub letters: DeadLetterMatch,
    /// Counts them and deletes nothing.
    pub count_only: bool,
}

/// What one step did.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgeStep {
    /// Dead letters deleted, or counted.
    pub letters: i64,
    /// Where the next step goes on; None: it was the last one.
    pub next: Option<DeadLetterPlace>,
}

impl Store {
    /// A transaction that reads pages along an index whatever the statistics say: a step that read and sorted all there is would
    /// make many steps slower and slower.
    pub(crate) async fn begin_in_order(&self) -> Result<Transaction<'static, Postgres>> {
        let mut tx = self.pool.begin().await?;
        sqlx::query("SET LOCAL enable_bitmapscan = off").execute(&mut *tx).await?;
        Ok(tx)
    }

    /// Deletes those of the next [`PURGE_STEP`] dead letters that match. Doing it again does no harm.
    pub async fn purge_dead_letters(
        &self,
        filter: &PurgeFilter,
        after: Option<DeadLetterPlace>,
    ) -> Result<PurgeStep> {
        let first = (filter.broadcast.unwrap_or(BroadcastId(0)), Shard::MIN, ProviderId(0), DeviceId(0));
        let (broadcast, shard, provider, device) = after.unwrap_or(first);
        let these = &filter.letters;
        bounded("purge of dead letters", async {
            let mut tx = self.begin_in_order().await?;
            let step = sqlx::query_file!(
                "queries/dead_letter_purge.sql",
                broadcast.0,
                shard,
                provider.0,
                device.0,
                filter.broadcast.map(|b| b.0),
                &these.reasons as _,
                these.code,
                these.provider.map(|p| p.0),
                these.from,
                these.to,
                PURGE_STEP,
                filter.count_only
            )
            .fetch_one(&mut *tx)
            .await?;
            tx.commit().await?;
            let last = match (step.broadcast, step.shard, step.provider, step.device) {
                (Some(broadcast), Some(shard), Some(provider), Some(device)) => {
                    Some((broadcast, shard, provider, device))
                }
                _ => None,
            };
            Ok(PurgeStep { letters: step.letters, next: last.filter(|_| step.looked_at == PURGE_STEP) })
        })
        .await
    }
}
