//! Connections: a pool for what is occasional, and single lanes that come back by themselves for the hot path.

use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Executor, PgPool, SqlStr};

use crate::accept::ShortLists;
use crate::error::{Result, StoreError};
use crate::shards::Known;

/// No statement of ours may run longer than this; the server ends it.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// But for an examination, which reads everything.
const PATIENT_TIMEOUT: Duration = Duration::from_secs(600);
/// And what upkeep reads.
const UPKEEP_TIMEOUT: Duration = Duration::from_secs(60);
/// No statement may wait longer than this for a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// A transaction whose client fell silent holds its locks no longer than this.
const IDLE_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a caller waits for a connection of the pool.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a lane waits for a connection, and the pool for a sign of life of one that comes back to it. Shorter than the
/// time for which senders leave each other's work alone after Postgres was away: whoever comes back later is taken for dead.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Connections of the pool that are kept open, and at most half of those it may have: nothing bounds how long the pool
/// itself tries to open these, and callers must not find all of them taken by that.
const WARM_CONNECTIONS: u32 = 4;
/// How long the client waits for any answer on a lane: longer than the server's own limits, for a server that is gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// What CreateBroadcast reads, prepared when a connection opens, so that the first operator in a hurry does not wait for it.
const PREPARED: [&str; 2] =
    [include_str!("../queries/broadcast_by_key.sql"), include_str!("../queries/broadcast_counts.sql")];

/// Statements of the pool are planned for the tables as they are now, and never read a table whole.
const FRESH_PLANS: [(&str, &str); 2] = [("plan_cache_mode", "force_custom_plan"), ("enable_seqscan", "off")];

/// The plans of the hot path must not change with the statistics: each of these was seen to pick a plan that reads far
/// more than the batch at hand once a table had been analysed in mid-run.
const STABLE_PLANS: [(&str, &str); 6] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_mergejoin", "off"),
    ("enable_hashjoin", "off"),
    ("enable_material", "off"),
    ("max_parallel_workers_per_gather", "0"),
];

/// The flush finds each row by its key. Without index scans only bitmaps are left, which cannot do without the key: else, where days are
/// of one broadcast each, reading all of each day once was seen to look cheaper than a few batches' ranges of one, and took seconds.
const KEYED_PLANS: [(&str, &str); 2] = [("enable_indexscan", "off"), ("enable_indexonlyscan", "off")];

/// All that Bongsu keeps, in one Postgres. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) pool: PgPool,
    pub(crate) known_shards: Known,
    pub(crate) short_lists: Arc<ShortLists>,
    options: PgConnectOptions,
}

impl Store {
    /// Prepares a store at a `postgres://` URL with at most `connections` in its pool. Connects when first used: see
    /// [`Store::wait_until_ready`].
    pub fn new(url: &str, connections: u32, application: &str) -> Result<Self> {
        let options = PgConnectOptions::from_str(url)
            .map_err(|e| {
                StoreError::Config(format!(
                    "BONGSU_DATABASE_URL is not a postgres:// URL ({e}); expected postgres://user:password@host:5432/database"
                ))
            })?
            .application_name(application)
            .disable_statement_logging();
        let options = with_settings(options, &[]);
        let pooled = with_settings(options.clone(), &FRESH_PLANS);
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            // Some are open before they are needed: opening one costs more than most calls.
            .min_connections((connections / 2).min(WARM_CONNECTIONS))
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .after_connect(|connection, _| {
                Box::pin(async move {
                    for statement in PREPARED {
                        // Without the schema there is nothing to prepare; whoever needs it will hear so.
                        if connection.prepare(SqlStr::from_static(statement)).await.is_err() {
                            break;
                        }
                    }
                    Ok(())
                })
            })
            // The pool asks every connection that comes back whether it lives, and would wait for ever for one whose call was
            // given up because it never answers: asked here first, within our time.
            .after_release(|connection, _| {
                Box::pin(async move {
                    let alive = tokio::time::timeout(CONNECT_TIMEOUT, connection.ping()).await;
                    alive.unwrap_or_else(|_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))?;
                    Ok(true)
                })
            })
            .connect_lazy_with(pooled);
        let short_lists = Arc::new(ShortLists::new(with_settings(options.clone(), &STABLE_PLANS)));
        Ok(Self { pool, known_shards: Known::default(), short_lists, options })
    }

    /// Whether Postgres answers now.
    pub async fn ping(&self) -> Result<()> {
        sqlx::query("SELECT 1").execute(&self.pool).await?;
        Ok(())
    }

    /// Waits until Postgres answers, for at most `patience`; logs once a try what it waits for.
    pub async fn wait_until_ready(&self, patience: Duration) -> Result<()> {
        let policy = backoff::ExponentialBackoff {
            initial_interval: Duration::from_millis(100),
            max_interval: Duration::from_secs(2),
            max_elapsed_time: Some(patience),
            ..Default::default()
        };
        backoff::future::retry_notify(
            policy,
            || async {
                // Not through the pool, which would hide why it cannot connect behind its own time-out.
                let answer = async { self.options.connect().await?.close().await };
                let answer = tokio::time::timeout(ACQUIRE_TIMEOUT, answer)
                    .await
                    .map_err(|_| StoreError::timed_out("connecting", ACQUIRE_TIMEOUT))
                    .and_then(|answer| Ok(answer?));
                answer.map_err(|e| match e {
                    e if e.is_unavailable() => backoff::Error::transient(e),
                    other => backoff::Error::permanent(other),
                })
            },
            |error: StoreError, next: Duration| {
                tracing::warn!(retry_in_ms = next.as_millis() as u64, "waiting for the database: {error}");
            },
        )
        .await
    }

    /// A single connection of its own whose plans do not change with the statistics.
    pub(crate) fn lane(&self) -> Lane {
        Lane::new(with_settings(self.options.clone(), &STABLE_PLANS))
    }

    /// The same for statements that find all rows by their key.
    pub(crate) fn keyed_lane(&self) -> Lane {
        let lane = self.lane();
        Lane { options: lane.options.options(KEYED_PLANS), ..lane }
    }

    /// The same as [`Store::lane`] for what is of no use a second later: its commits do not wait for the disk.
    pub(crate) fn fleeting_lane(&self) -> Lane {
        let lane = self.lane();
        Lane { options: lane.options.options([("synchronous_commit", "off")]), ..lane }
    }

    /// A pool of one connection, for what wants a pool and must not take part in that of all.
    pub(crate) fn single(&self) -> PgPool {
        PgPoolOptions::new()
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .acquire_timeout(CONNECT_TIMEOUT)
            .connect_lazy_with(self.options.clone())
    }

    /// A connection of its own whose statements are ended after so long, planned as Postgres likes.
    pub(crate) fn impatient_lane(&self, statement_timeout: Duration) -> Lane {
        let timeout = statement_timeout.as_millis().to_string();
        Lane::new(self.options.clone().options([("statement_timeout", timeout)]))
    }

    /// A connection whose statements may take minutes.
    pub(crate) async fn patient_connection(&self) -> Result<PgConnection> {
        let options =
            self.options.clone().options([("statement_timeout", PATIENT_TIMEOUT.as_millis().to_string())]);
        Ok(options.connect().await?)
    }

    /// A connection for what changes tables beside running work: gives way to whoever holds a lock, and reads the disk
    /// slowly. Its ANALYZE takes a small sample, so that it is done with delivery in less than a second.
    pub(crate) async fn upkeep_connection(&self, lock_timeout: Duration) -> Result<PgConnection> {
        let settings = [
            ("statement_timeout", UPKEEP_TIMEOUT.as_millis().to_string()),
            ("lock_timeout", lock_timeout.as_millis().to_string()),
            ("vacuum_cost_delay", "2ms".to_string()),
            ("default_statistics_target", "10".to_string()),
        ];
        let connecting = self.options.clone().options(settings).options(FRESH_PLANS);
        match tokio::time::timeout(CONNECT_TIMEOUT, connecting.connect()).await {
            Ok(connection) => Ok(connection?),
            Err(_) => Err(StoreError::Unavailable(format!("no connection within {CONNECT_TIMEOUT:?}"))),
        }
    }

    /// The pool, for tests that look at what no API shows.
    #[cfg(feature = "testing")]
    pub fn test_pool(&self) -> &PgPool {
        &self.pool
    }

    /// A connection as the lanes open theirs, for tests that look at its plans.
    #[cfg(feature = "testing")]
    pub async fn test_lane(&self) -> Result<PgConnection> {
        Ok(self.lane().options.connect().await?)
    }

    /// The same of the lanes that record outcomes.
    #[cfg(feature = "testing")]
    pub async fn test_keyed_lane(&self) -> Result<PgConnection> {
        Ok(self.keyed_lane().options.connect().await?)
    }

    /// Opens what accepts short lists, so that the first caller does not wait for it. Without it, whoever needs it opens it.
    pub async fn open_short_lists(&self) -> Result<()> {
        self.short_lists.open().await
    }

    /// Ends the connections that nobody owns.
    pub async fn close(&self) {
        self.short_lists.close().await;
        // It waits for connections in use, and one whose server vanished may be in use for long.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.pool.close()).await;
    }
}

/// Gives up on `work` after [`ANSWER_TIMEOUT`]: for calls through the pool, whose server may have vanished without a word.
pub(crate) async fn bounded<T>(what: &'static str, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(ANSWER_TIMEOUT, work)
        .await
        .unwrap_or_else(|_| Err(StoreError::timed_out(what, ANSWER_TIMEOUT)))
}

fn with_settings(options: PgConnectOptions, more: &[(&str, &str)]) -> PgConnectOptions {
    let millis = |d: Duration| d.as_millis().to_string();
    options
        .options([
            ("statement_timeout", millis(STATEMENT_TIMEOUT)),
            ("lock_timeout", millis(LOCK_TIMEOUT)),
            ("idle_in_transaction_session_timeout", millis(IDLE_TRANSACTION_TIMEOUT)),
            ("timezone", "UTC".to_string()),
            ("jit", "off".to_string()),
        ])
        .options(more.iter().copied())
}

/// A plan made while the tables were small is not kept for longer: making it anew costs less than a millisecond.
const KEEP_PLANS: Duration = Duration::from_secs(2);

/// One connection that is opened when needed, dropped after any error that leaves its state unknown, and opened anew at
/// the next use.
#[derive(Debug)]
pub(crate) struct Lane {
    options: PgConnectOptions,
    connection: Option<PgConnection>,
    /// When its plans were last forgotten.
    planned_at: Instant,
}

impl Lane {
    pub(crate) fn new(options: PgConnectOptions) -> Self {
        Self { options, connection: None, planned_at: Instant::now() }
    }

    /// Opens the connection, with a statement known to it.
    pub(crate) async fn prepare(&mut self, statement: &'static str) -> Result<()> {
        self.run("prepare", async |connection| {
            connection.prepare(SqlStr::from_static(statement)).await?;
            Ok(())
        })
        .await
    }

    /// Runs `work` on the connection, within [`ANSWER_TIMEOUT`], of which opening one may use [`CONNECT_TIMEOUT`]. Whatever fails, the connection is dropped: the server
    /// then rolls back, and the next use starts clean.
    pub(crate) async fn run<T>(
        &mut self,
        what: &'static str,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T>,
    ) -> Result<T> {
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, async {
            let mut connection = match self.connection.take() {
                Some(open) => self.replan(open).await?,
                None => self.connect().await?,
            };
            let value = work(&mut connection).await?;
            Ok((connection, value))
        })
        .await;
        match answer {
            Ok(Ok((connection, value))) => {
                self.connection = Some(connection);
                Ok(value)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StoreError::timed_out(what, ANSWER_TIMEOUT)),
        }
    }

    async fn connect(&self) -> Result<PgConnection> {
        match tokio::time::timeout(CONNECT_TIMEOUT, self.options.connect()).await {
            Ok(connection) => Ok(connection?),
            Err(_) => Err(StoreError::Unavailable(format!("no connection within {CONNECT_TIMEOUT:?}"))),
        }
    }

    async fn replan(&mut self, mut open: PgConnection) -> Result<PgConnection> {
        if self.planned_at.elapsed() > KEEP_PLANS {
            sqlx::query("DISCARD PLANS").execute(&mut open).await?;
            self.planned_at = Instant::now();
        }
        Ok(open)
    }

    /// Whether a connection is open, as far as known here.
    pub(crate) fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    /// Says goodbye to the server.
    pub(crate) async fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            let _ = tokio::time::timeout(Duration::from_secs(1), connection.close()).await;
        }
    }
}
