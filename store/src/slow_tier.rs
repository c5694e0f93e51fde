//! The slow tier: what used up its attempts is replayed by itself some minutes later, a few times.
//!
//! A round is a replay like any other, of a broadcast that has ended: the original or the round before. Which broadcasts wait for
//! one is in Postgres, so that any sender makes it, at whatever time, and each is made once.

use std::time::Duration;

use crate::connect::{Store, bounded};
use crate::error::Result;
use crate::ids::{BroadcastId, ProviderId};

/// Broadcasts looked at in one step.
const STEP_BROADCASTS: i64 = 100;
/// Whose idempotency keys the rounds have: nobody else's key is one of them.
const CLIENT_ID: &str = "bongsu:slow-tier";

/// What one step made.
#[must_use]
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SlowRounds {
    /// The broadcasts that are rounds.
    pub made: Vec<BroadcastId>,
    /// Whether there is probably more to do at once.
    pub more: bool,
}

impl Store {
    /// Makes the rounds that are due of some broadcasts that ended at least `every` ago, for what died of them at this provider: at
    /// most `rounds` of each original.
    pub async fn make_slow_rounds(
        &self,
        provider: ProviderId,
        every: Duration,
        rounds: u32,
    ) -> Result<SlowRounds> {
        bounded("slow tier", async {
            let step = sqlx::query_file!(
                "queries/slow_tier_step.sql",
                provider.0,
                every.as_secs_f64(),
                i32::try_from(rounds).unwrap_or(i32::MAX),
                STEP_BROADCASTS,
                CLIENT_ID
            )
            .fetch_one(&self.pool)
            .await?;
            let made = step.made.into_iter().map(BroadcastId).collect();
            Ok(SlowRounds { made, more: step.looked_at == STEP_BROADCASTS })
        })
        .await
    }
}
