//! What goes in steps once its day has no deliveries: rows of tables that have no partitions.

use sqlx::postgres::PgConnection;
use time::Date;

use super::{Partition, PartitionState, RetentionTurn, or_for_ever, partitions};
use crate::connect::bounded;
use crate::error::Result;

/// Rows deleted in one statement, which takes a tenth of a second at most.
const PURGE_AUDIENCES: i64 = 20;
const PURGE_ROWS: i64 = 500;
/// Of rows that nothing refers to and that refer to nothing.
const PURGE_LOOSE_ROWS: i64 = 2_000;

/// Rows that one step deleted.
#[must_use]
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Purged {
    /// Of explicit audiences, up to 10,000 ids each.
    pub audiences: u64,
    pub dead_letters: u64,
    pub broadcasts: u64,
    /// Failed attempts of deliveries that are gone.
    pub failures: u64,
    /// What happened to devices.
    pub device_events: u64,
    /// Whether there is probably more to do at once.
    pub more: bool,
}

impl RetentionTurn {
    /// Deletes some of what is not needed any more once its day has no deliveries: explicit audiences and failed attempts, and
    /// after `history_days` dead letters, broadcasts and what happened to devices.
    pub async fn purge(&mut self, days: u32, history_days: u32) -> Result<Purged> {
        let all = partitions(&mut self.connection, days).await?;
        let has_deliveries =
            |p: &&Partition| !matches!(p.state, PartitionState::Detached | PartitionState::Foreign);
        let Some(oldest) = all.iter().filter(has_deliveries).map(|p| p.day).min() else {
            return Ok(Purged::default());
        };
        let (days, history_days) = (or_for_ever(days), or_for_ever(history_days));
        let connection = &mut self.connection;
        bounded("purging", async {
            let audiences =
                sqlx::query_file!("queries/retention_purge_audiences.sql", oldest, days, PURGE_AUDIENCES)
                    .execute(&mut *connection)
                    .await?
                    .rows_affected();
            let dead_letters = sqlx::query_file!(
                "queries/retention_purge_dead_letters.sql",
                oldest,
                history_days,
                PURGE_ROWS
            )
            .execute(&mut *connection)
            .await?
            .rows_affected();
            let broadcasts =
                sqlx::query_file!("queries/retention_purge_broadcasts.sql", oldest, history_days, PURGE_ROWS)
                    .execute(&mut *connection)
                    .await?
                    .rows_affected();
            let (failures, device_events) = purge_loose(connection, oldest, days, history_days).await?;
            let more = audiences >= PURGE_AUDIENCES.unsigned_abs()
                || dead_letters.max(broadcasts) >= PURGE_ROWS.unsigned_abs()
                || failures.max(device_events) >= PURGE_LOOSE_ROWS.unsigned_abs();
            Ok(Purged { audiences, dead_letters, broadcasts, failures, device_events, more })
        })
        .await
    }
}

impl RetentionTurn {
    /// Deletes some of what is in inboxes for more than `days`, counted from the start of its broadcast, and for more than
    /// `history_days` in any case: a broadcast has its text. Returns how many rows, and whether there is probably more to do at once.
    pub async fn purge_inbox(&mut self, days: u32, history_days: u32) -> Result<(u64, bool)> {
        let days = or_for_ever(days).min(or_for_ever(history_days));
        let connection = &mut self.connection;
        bounded("purging", async {
            let rows = sqlx::query_file!("queries/retention_purge_inbox.sql", days, PURGE_LOOSE_ROWS)
                .execute(connection)
                .await?
                .rows_affected();
            Ok((rows, rows >= PURGE_LOOSE_ROWS.unsigned_abs()))
        })
        .await
    }
}

/// Deletes some failed attempts and events of devices; how many of each.
async fn purge_loose(
    connection: &mut PgConnection,
    oldest: Date,
    days: i32,
    history_days: i32,
) -> Result<(u64, u64)> {
    let failures = sqlx::query_file!("queries/retention_purge_failures.sql", oldest, days, PURGE_LOOSE_ROWS)
        .execute(&mut *connection)
        .await?
        .rows_affected();
    let events =
        sqlx::query_file!("queries/retention_purge_device_events.sql", history_days, PURGE_LOOSE_ROWS)
            .execute(connection)
            .await?
            .rows_affected();
    Ok((failures, events))
}
