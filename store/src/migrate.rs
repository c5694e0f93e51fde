//! Bringing the schema up to date, and databases for demo, dev and tests.

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection};
use std::str::FromStr;
use std::time::Duration;

use crate::connect::{Store, bounded};
use crate::error::{Result, StoreError};
use crate::ids::BroadcastId;

static MIGRATOR: sqlx::migrate::Migrator = sqlx::migrate!("../migrations");

/// Days ahead for which delivery partitions are kept ready, today included.
const PARTITION_DAYS: i32 = 3;

impl Store {
    /// Waits for Postgres for at most `patience`, then brings the schema up to date, or with `migrate` off makes sure that
    /// it is. What every process does first.
    pub async fn prepare(&self, patience: Duration, migrate: bool) -> Result<()> {
        self.wait_until_ready(patience).await.map_err(|error| match error {
            StoreError::Unavailable(why) => StoreError::Unavailable(format!(
                "Postgres did not answer within {} s ({why}): is it running, and is --database-url (BONGSU_DATABASE_URL) \
                 right? --database-patience-s (BONGSU_DATABASE_PATIENCE_S) waits longer",
                patience.as_secs()
            )),
            other => other,
        })?;
        if !migrate {
            return self.check_schema().await;
        }
        let applied = self.migrate().await?;
        tracing::info!(migrations = applied, "schema is up to date");
        Ok(())
    }

    /// Applies what is missing of the migrations and makes the next partitions. Safe when several processes start at
    /// once: sqlx's migrator holds an advisory lock. Returns how many migrations it applied.
    pub async fn migrate(&self) -> Result<usize> {
        let before = self.applied_migrations().await?;
        MIGRATOR.run(&self.pool).await.map_err(|e| match e {
            sqlx::migrate::MigrateError::Execute(e) => StoreError::from(e),
            sqlx::migrate::MigrateError::VersionMissing(v) => StoreError::Schema(format!(
                "the database has migration {v}, which this program does not know: it was built before; use a newer one"
            )),
            other => StoreError::Schema(other.to_string()),
        })?;
        self.ensure_partitions().await?;
        Ok(self.applied_migrations().await? - before)
    }

    /// Fails with what to do unless the schema has every migration this program knows.
    pub async fn check_schema(&self) -> Result<()> {
        let applied = self.applied_migrations().await?;
        let known = MIGRATOR.iter().count();
        if applied < known {
            return Err(StoreError::Schema(format!(
                "the schema has {applied} of {known} migrations: run `bongsu migrate`, or start with --migrate"
            )));
        }
        Ok(())
    }

    /// Makes the delivery partitions of today and the days ahead, where missing. Returns how many it made.
    pub async fn ensure_partitions(&self) -> Result<i64> {
        let made = sqlx::query_scalar!(
            r#"SELECT count(*) FILTER (WHERE ensure_delivery_partition(day::date)) AS "made!"
               FROM generate_series((now() AT TIME ZONE 'UTC')::date,
                                    (now() AT TIME ZONE 'UTC')::date + $1::int - 1, interval '1 day') AS day"#,
            PARTITION_DAYS
        )
        .fetch_one(&self.pool);
        bounded("making partitions", async { Ok(made.await?) }).await
    }

    /// Makes the delivery partition of a broadcast's day, where it is missing.
    pub(crate) async fn ensure_partition_of(&self, id: BroadcastId) -> Result<()> {
        let made = sqlx::query_scalar!(
            "SELECT ensure_delivery_partition((timestamp '2025-01-01' + ($1::bigint >> 20) * interval '1 millisecond')::date)",
            id.0
        )
        .fetch_one(&self.pool);
        bounded("making a partition", async {
            made.await?;
            Ok(())
        })
        .await
    }

    async fn applied_migrations(&self) -> Result<usize> {
        let there: bool = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
            .fetch_one(&self.pool)
            .await?;
        if !there {
            return Ok(0);
        }
        let n: i64 = sqlx::query_scalar("SELECT count(*) FROM _sqlx_migrations WHERE success")
            .fetch_one(&self.pool)
            .await?;
        Ok(usize::try_from(n).unwrap_or_default())
    }
}

/// Makes a database on the server at `server_url`, as a copy of `template` where one is given. For demo, dev and tests.
pub async fn create_database(server_url: &str, name: &str, template: Option<&str>) -> Result<()> {
    let quoted = |n: &str| format!("\"{}\"", n.replace('"', "\"\""));
    let mut sql = format!("CREATE DATABASE {}", quoted(name));
    if let Some(template) = template {
        sql += &format!(" TEMPLATE {}", quoted(template));
    }
    let mut connection = PgConnectOptions::from_str(server_url)?.connect().await?;
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}
