//! What a benchmark asks the server: how much it has written, how its updates of deliveries went; and what it lays beside
//! the work, an old snapshot or a history.

use std::time::{Duration, Instant};

use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use time::OffsetDateTime;

use crate::connect::Store;
use crate::error::Result;
use crate::fan_out::PAGE_DEVICES;

/// Rows of history in one statement.
const HISTORY_STEP: i64 = 250_000;

/// Counts since the server's start. They lag behind by about a second; see `queries/database_load.sql`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Whole pages written to the log, each at its first change after a checkpoint.
    pub full_page_images: i64,
    /// Updates of rows of `delivery`.
    pub updates: i64,
    /// Of those, updates in place: the row stayed on its page, and no index was touched.
    pub hot_updates: i64,
}

/// A transaction that does nothing but keep its snapshot, and with it every row that has died since.
#[derive(Debug)]
pub struct HeldSnapshot(PgConnection);

impl HeldSnapshot {
    /// Lets go of it.
    pub async fn end(self) -> Result<()> {
        Ok(self.0.close().await?)
    }
}

impl Store {
    /// Where the write-ahead log has come to, in bytes. Exact and cheap: it may be asked ten times a second.
    pub async fn wal_position(&self) -> Result<i64> {
        let position =
            sqlx::query_scalar!(r#"SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint AS "position!""#);
        Ok(position.fetch_one(&self.pool).await?)
    }

    /// Whether deliveries are still being made of any broadcast.
    pub async fn is_fanning_out(&self) -> Result<bool> {
        let open = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM broadcast WHERE state IN ('accepted', 'fanning_out')) AS "open!""#
        );
        Ok(open.fetch_one(&self.pool).await?)
    }

    /// What the server has done so far.
    pub async fn database_load(&self) -> Result<Load> {
        Ok(sqlx::query_file_as!(Load, "queries/database_load.sql").fetch_one(&self.pool).await?)
    }

    /// Writes everything to the disk, so that each of several measurements begins from the same state. Takes a privilege
    /// that only the owner of a private server has.
    pub async fn checkpoint(&self) -> Result<()> {
        let mut connection = self.patient_connection().await?;
        sqlx::query("CHECKPOINT").execute(&mut connection).await?;
        Ok(connection.close().await?)
    }

    /// Takes a snapshot and holds it, as a forgotten session or a long report does.
    pub async fn hold_snapshot(&self) -> Result<HeldSnapshot> {
        let mut connection = self.patient_connection().await?;
        for statement in [
            "SET idle_in_transaction_session_timeout = 0",
            "BEGIN ISOLATION LEVEL REPEATABLE READ",
            "SELECT 1",
        ] {
            sqlx::query(statement).execute(&mut connection).await?;
        }
        Ok(HeldSnapshot(connection))
    }

    /// When the last of these broadcasts had all its deliveries; none as long as one has not.
    pub async fn fanned_out_at(&self, broadcasts: &[i64]) -> Result<Option<OffsetDateTime>> {
        let at = sqlx::query_file_scalar!("queries/fanned_out_at.sql", broadcasts);
        Ok(at.fetch_one(&self.pool).await?)
    }

    /// When the last delivery of a broadcast that took so many calls at most became final.
    pub async fn settled_within_calls(&self, broadcast: i64, calls: i32) -> Result<Option<OffsetDateTime>> {
        let at = sqlx::query_scalar!(
            "SELECT max(settled_at) FROM delivery WHERE broadcast_id = $1 AND attempts <= $2",
            broadcast,
            calls
        );
        Ok(at.fetch_one(&self.pool).await?)
    }

    /// Makes a delivery for each device that can be sent to, page by page like a fan-out, and nothing else: neither batches nor
    /// a broadcast. Says how many, and how long it took.
    pub async fn insert_deliveries_alone(&self) -> Result<(u64, Duration)> {
        self.ensure_partitions().await?;
        let mut connection = self.pool.acquire().await?;
        let id =
            sqlx::query_scalar!(r#"SELECT next_broadcast_id() AS "id!""#).fetch_one(&mut *connection).await?;
        let last =
            sqlx::query_scalar!(r#"SELECT coalesce(max(id), 0) AS "last!" FROM device WHERE shard = 0"#)
                .fetch_one(&mut *connection)
                .await?;
        let began = Instant::now();
        let (mut made, mut first) = (0, 1);
        while first <= last {
            let end = first + PAGE_DEVICES - 1;
            let page = sqlx::query_file!("queries/bare_insert.sql", id, first, end)
                .execute(&mut *connection)
                .await?;
            made += page.rows_affected();
            first = end + 1;
        }
        Ok((made, began.elapsed()))
    }

    /// Makes the partition of the day that many days from now.
    pub async fn make_partition_ahead(&self, days: i32) -> Result<()> {
        make_partition(&mut *self.pool.acquire().await?, days).await
    }

    /// Adds `rows` deliveries that were sent, spread evenly over the last `days` days, one final broadcast a day. Their devices
    /// have the ids from 1 on.
    pub async fn add_history(&self, rows: i64, days: u32) -> Result<()> {
        let mut connection = self.patient_connection().await?;
        for day in 1..=i64::from(days) {
            let of_day = rows * day / i64::from(days) - rows * (day - 1) / i64::from(days);
            let ago = day as i32;
            make_partition(&mut connection, -ago).await?;
            let id = sqlx::query_file_scalar!("queries/history_broadcast.sql", ago, of_day)
                .fetch_one(&mut connection)
                .await?;
            let mut first = 1;
            while first <= of_day {
                let last = of_day.min(first + HISTORY_STEP - 1);
                sqlx::query_file!("queries/history_deliveries.sql", id, first, last)
                    .execute(&mut connection)
                    .await?;
                first = last + 1;
            }
        }
        sqlx::query("VACUUM (ANALYZE) delivery").execute(&mut connection).await?;
        Ok(connection.close().await?)
    }
}

async fn make_partition(connection: &mut PgConnection, days_ahead: i32) -> Result<()> {
    sqlx::query!("SELECT ensure_delivery_partition((now() + make_interval(days => $1))::date)", days_ahead)
        .fetch_one(connection)
        .await?;
    Ok(())
}
