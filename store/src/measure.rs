//! What a benchmark asks the server: how much it has written, and how its updates of deliveries went.

use sqlx::Connection as _;

use crate::connect::Store;
use crate::error::Result;

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

impl Store {
    /// Where the write-ahead log has come to, in bytes. Exact and cheap: it may be asked ten times a second.
    pub async fn wal_position(&self) -> Result<i64> {
        let position =
            sqlx::query_scalar!(r#"SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint AS "position!""#);
        Ok(position.fetch_one(&self.pool).await?)
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
}
