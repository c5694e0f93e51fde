//! Senders, as the others see them.

use std::time::Duration;

use time::OffsetDateTime;

use crate::connect::{Store, bounded};
use crate::error::Result;
use crate::ids::SenderId;

/// What a sender says it is.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A sender that was not heard of for so long may be dead.
pub const DEAD_AFTER: Duration = Duration::from_millis(1_500);

/// What is known of a sender's life, by the rules of `sender_revoke_dead.sql`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderLife {
    /// Heard of within [`DEAD_AFTER`].
    Alive,
    /// Not heard of, but it has its session lock, or the last that was heard of it is from before Postgres started: nothing is
    /// proved, and what it holds is taken when its leases run out.
    Silent,
    /// Not heard of, and its session lock is free: what it holds is taken at once.
    Dead,
}

/// A sender.
#[derive(Debug, Clone, PartialEq)]
pub struct SenderInfo {
    pub id: SenderId,
    /// None of a sender that does not tell.
    pub version: Option<String>,
    pub started_at: OffsetDateTime,
    pub heartbeat_at: OffsetDateTime,
    /// Since then, by the database's clock.
    pub silent: Duration,
    pub life: SenderLife,
    /// Calls under way at its last heartbeat.
    pub in_flight: i32,
    /// Batches in its hands.
    pub batches: i64,
    /// Deliveries of these that have no outcome yet.
    pub deliveries: i64,
}

impl Store {
    /// Senders heard of in the last hour, and those that still hold something; the oldest first. The sweep forgets the others.
    pub async fn senders(&self) -> Result<Vec<SenderInfo>> {
        let shards = self.shards().await?.list();
        let rows = bounded("list of senders", async {
            Ok(sqlx::query_file!("queries/sender_list.sql", &shards).fetch_all(&self.pool).await?)
        })
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| {
                let silent = Duration::from_secs_f64(row.silent_seconds.max(0.0));
                SenderInfo {
                    id: row.id,
                    version: row.version,
                    started_at: row.started_at,
                    heartbeat_at: row.heartbeat_at,
                    silent,
                    life: life(silent, row.locked, row.heard_since_start),
                    in_flight: row.in_flight,
                    batches: row.batches,
                    deliveries: row.deliveries,
                }
            })
            .collect())
    }
}

fn life(silent: Duration, locked: bool, heard_since_start: bool) -> SenderLife {
    match (silent < DEAD_AFTER, locked, heard_since_start) {
        (true, ..) => SenderLife::Alive,
        (false, false, true) => SenderLife::Dead,
        (false, ..) => SenderLife::Silent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_free_lock_and_a_heartbeat_from_after_the_start_of_postgres_prove_that_a_silent_sender_is_dead()
    {
        let late = Duration::from_secs(2);
        assert_eq!(life(Duration::from_secs(1), false, true), SenderLife::Alive, "behind a pooler: no lock");
        assert_eq!(life(late, true, true), SenderLife::Silent);
        assert_eq!(life(late, false, false), SenderLife::Silent, "a restart took everybody's lock");
        assert_eq!(life(late, false, true), SenderLife::Dead);
    }
}
