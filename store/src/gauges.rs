//! What a scrape of metrics asks the database: where the queue stands, who works on it, how the database fares.
//!
//! Nothing here counts deliveries. The most that is read is the table of batches, which holds the work of broadcasts that are not
//! final and nothing else.

use std::time::Duration;

use crate::connect::{Lane, Store};
use crate::error::{Result, StoreError};

/// No statement of a scrape may run longer than this; the server ends it.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(1);
/// Nor all of them together, with the opening of the connection.
const SCRAPE_TIMEOUT: Duration = Duration::from_millis(2_500);

/// One look at the database, all by its own clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauges {
    pub broadcasts: Vec<OpenBroadcasts>,
    pub work: Vec<ProviderWork>,
    pub providers: Vec<ProviderPause>,
    pub database: DatabaseGauges,
    pub tables: Vec<TableRows>,
}

/// Broadcasts in a state that is not final.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenBroadcasts {
    /// As [`crate::BroadcastState`] is spelled in SQL.
    pub state: String,
    pub broadcasts: i64,
    /// For how long the one that waited longest has been without a page of fan-out.
    pub fan_out_seconds: f64,
}

/// What is under way at one provider: deliveries and batches of broadcasts that are not final.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderWork {
    pub provider: String,
    pub pending: i64,
    pub sent: i64,
    pub dead_attempts_exhausted: i64,
    pub dead_unregistered: i64,
    pub dead_rejected: i64,
    pub expired: i64,
    pub skipped: i64,
    pub cancelled: i64,
    pub unconfirmed: i64,
    pub ready: i64,
    pub waiting: i64,
    pub leased: i64,
    pub held: i64,
    /// Since the last page of fan-out of the oldest broadcast with a batch that nobody has taken.
    pub fresh_seconds: f64,
    /// Since the oldest retry is due, and since the oldest lease ran out.
    pub retry_seconds: f64,
    pub lease_seconds: f64,
}

/// Whether a provider is left alone, and its rate.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderPause {
    pub provider: String,
    /// For how long it has been parked; 0: it is not.
    pub parked_seconds: f64,
    /// Parked since it is not believed.
    pub doubted: bool,
    /// How long it still wants to be left alone.
    pub held_seconds: f64,
    /// Calls a second by all senders at most, if there is a limit.
    pub rate_per_second: Option<i32>,
}

/// The database as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct DatabaseGauges {
    /// Senders that were heard of within 10 s.
    pub live_senders: i64,
    pub bytes: i64,
    pub oldest_transaction_seconds: f64,
    /// How many transactions ago the oldest snapshot was taken that somebody still holds.
    pub oldest_snapshot_age: i64,
    /// Days of deliveries, and how many of today and the two next ones have none.
    pub partitions: i64,
    pub missing_partitions: i64,
}

/// A table that is written all the time, as the statistics have it.
#[derive(Debug, Clone, PartialEq)]
pub struct TableRows {
    pub table: String,
    pub live: i64,
    pub dead: i64,
}

/// A connection of its own for scrapes, so that they wait for nobody and nobody for them.
#[derive(Debug)]
pub struct GaugeLane(Lane);

impl Store {
    pub fn gauge_lane(&self) -> GaugeLane {
        GaugeLane(self.impatient_lane(STATEMENT_TIMEOUT))
    }
}

impl GaugeLane {
    /// Looks, for 2.5 s at most.
    pub async fn read(&mut self) -> Result<Gauges> {
        let looking = self.0.run("gauges", async |connection| {
            Ok(Gauges {
                broadcasts: sqlx::query_file_as!(OpenBroadcasts, "queries/gauges_broadcasts.sql")
                    .fetch_all(&mut *connection)
                    .await?,
                work: sqlx::query_file_as!(ProviderWork, "queries/gauges_work.sql")
                    .fetch_all(&mut *connection)
                    .await?,
                providers: sqlx::query_file_as!(ProviderPause, "queries/gauges_providers.sql")
                    .fetch_all(&mut *connection)
                    .await?,
                database: sqlx::query_file_as!(DatabaseGauges, "queries/gauges_database.sql")
                    .fetch_one(&mut *connection)
                    .await?,
                tables: sqlx::query_file_as!(TableRows, "queries/gauges_tables.sql")
                    .fetch_all(&mut *connection)
                    .await?,
            })
        });
        tokio::time::timeout(SCRAPE_TIMEOUT, looking)
            .await
            .unwrap_or_else(|_| Err(StoreError::timed_out("gauges", SCRAPE_TIMEOUT)))
    }

    /// Says goodbye to the server.
    pub async fn close(&mut self) {
        self.0.close().await;
    }
}
