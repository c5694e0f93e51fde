//! Retention: day partitions of delivery are dropped once they are old enough and every broadcast of the day is final.
//!
//! A partition leaves in three steps, each of which may be the last one that a process lives to see, and each of which the next
//! process goes on from: DETACH CONCURRENTLY, which waits for whoever uses delivery and may stop half way; FINALIZE, where it
//! did; DROP. Nobody who works on delivery waits for any of it: the first holds no lock that they need, and after it the
//! partition is not theirs any more. And no lock is waited for longer than [`LOCK_TIMEOUT`], so that not even somebody who asks
//! for the partition by name queues behind us.

mod purge;

use std::time::{Duration, Instant};

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};
use time::Date;

use crate::connect::{Store, bounded};
use crate::error::{Result, StoreError};
use crate::ids::BroadcastId;

pub use self::purge::Purged;

/// How long any lock is waited for at a time: what anybody who queues behind us may lose.
const LOCK_TIMEOUT: Duration = Duration::from_millis(150);
/// A lock that stops no sender is waited for longer than autovacuum needs to make way (`deadlock_timeout`, 1 s).
const MARK_LOCK_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a partition is tried in one turn, and the pause between.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(250);
/// How long the client waits for the answer to a change: longer than the server lets it take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(65);
/// The comment by which the tables are known that we have detached, or are about to: one that somebody else detached, to keep it,
/// is not ours to drop.
const MARK: &str = "bongsu: past its retention";

/// For how long deliveries are kept.
pub const DEFAULT_RETENTION_DAYS: u32 = 14;
/// For how long broadcasts are kept: counts, dead letters, idempotency keys.
pub const DEFAULT_HISTORY_DAYS: u32 = 90;
/// For how long notifications stay in inboxes, where broadcasts do.
pub const DEFAULT_INBOX_DAYS: u32 = 30;
/// Either may be this many days at most, and 0 is for ever. Every partition makes each delivery dearer.
pub const MOST_RETENTION_DAYS: u32 = 365;
pub const MOST_HISTORY_DAYS: u32 = 3_650;
/// In place of 0. The id of a broadcast so long ago still fits.
const FOR_EVER_DAYS: i32 = 36_500;

/// The deliveries of one day's broadcasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub name: String,
    /// In UTC.
    pub day: Date,
    /// As far as Postgres knows without counting.
    pub rows: i64,
    pub state: PartitionState,
}

/// Where a partition is between its making and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionState {
    /// Young enough.
    Kept,
    /// Old enough, but so many broadcasts of the day are not final, `first` for one.
    Waiting { broadcasts: i64, first: BroadcastId },
    /// Old enough, and all is final: the next turn drops it.
    Due,
    /// Its detaching was begun and did not come to its end: the next turn goes on.
    HalfWay { ours: bool },
    /// Detached by us, and the next turn drops it.
    Detached,
    /// Detached by somebody else. It stays.
    Foreign,
}

/// What one step did.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A partition is gone, after so long.
    Dropped { partition: Partition, took: Duration },
    /// What somebody else had begun to detach is detached, and theirs.
    Finalized(Partition),
    /// Somebody uses it and did not let go in time: it is as far as it came, and the next turn goes on.
    GaveUp { partition: Partition, why: String },
    /// Nothing is due.
    Done,
}

/// The right to change partitions, which one process has at a time. It ends with the connection.
#[derive(Debug)]
pub struct RetentionTurn {
    connection: PgConnection,
}

impl Store {
    /// The partitions of delivery, oldest first, and what is to become of them if `days` are kept (0: for ever).
    pub async fn partitions(&self, days: u32) -> Result<Vec<Partition>> {
        let mut connection = self.pool.acquire().await?;
        partitions(&mut connection, days).await
    }

    /// What each of these takes on the disk, its indexes included. None where it has gone meanwhile.
    pub async fn partition_bytes(&self, partitions: &[Partition]) -> Result<Vec<Option<i64>>> {
        let names: Vec<String> = partitions.iter().map(|p| p.name.clone()).collect();
        let sizes = sqlx::query_file!("queries/retention_sizes.sql", &names).fetch_all(&self.pool).await?;
        let bytes = |p: &Partition| sizes.iter().find(|s| s.name == p.name).and_then(|s| s.bytes);
        Ok(partitions.iter().map(bytes).collect())
    }

    /// Takes the turn; none where another process has it.
    pub async fn retention_turn(&self) -> Result<Option<RetentionTurn>> {
        let mut connection = self.upkeep_connection(LOCK_TIMEOUT).await?;
        let taken = sqlx::query_scalar!(
            r#"SELECT pg_try_advisory_lock(hashtextextended('bongsu:retention', 0)) AS "taken!""#
        )
        .fetch_one(&mut connection)
        .await?;
        if taken {
            return Ok(Some(RetentionTurn { connection }));
        }
        connection.close().await?;
        Ok(None)
    }
}

impl RetentionTurn {
    /// Brings the next partition to its end: what was begun first, since Postgres detaches one at a time, then the oldest.
    /// Takes some seconds at most. After an error the turn is to be given up.
    pub async fn step(&mut self, days: u32) -> Result<Step> {
        let all = partitions(&mut self.connection, days).await?;
        let urgency = |p: &&Partition| match p.state {
            PartitionState::HalfWay { .. } => 0,
            PartitionState::Detached => 1,
            PartitionState::Due => 2,
            _ => 3,
        };
        match all.iter().min_by_key(urgency).filter(|p| urgency(p) < 3) {
            Some(next) => self.remove(next.clone(), days).await,
            None => Ok(Step::Done),
        }
    }

    /// Goes on until the partition is gone, from wherever it is.
    async fn remove(&mut self, partition: Partition, days: u32) -> Result<Step> {
        let began = Instant::now();
        let name = partition.name.clone();
        let mut tries = TRIES;
        loop {
            let now = partitions(&mut self.connection, days).await?;
            let Some(now) = now.into_iter().find(|p| p.name == name) else {
                return Ok(Step::Dropped { partition, took: began.elapsed() });
            };
            let moved = match now.state {
                PartitionState::Due => self.detach(&name).await,
                PartitionState::HalfWay { .. } => {
                    self.execute(format!("ALTER TABLE delivery DETACH PARTITION {name} FINALIZE")).await
                }
                PartitionState::Detached => self.execute(format!("DROP TABLE {name}")).await,
                PartitionState::Foreign => return Ok(Step::Finalized(now)),
                PartitionState::Kept | PartitionState::Waiting { .. } => return Ok(Step::Done),
            };
            match moved {
                Ok(()) => {}
                Err(StoreError::TooSlow(why)) => {
                    tries -= 1;
                    if tries == 0 {
                        return Ok(Step::GaveUp { partition: now, why });
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                Err(other) => return Err(other),
            }
        }
    }

    async fn detach(&mut self, name: &str) -> Result<()> {
        // COMMENT takes the lock that the first half of DETACH needs. It stops nobody but VACUUM, which makes way.
        self.set_lock_timeout(MARK_LOCK_TIMEOUT).await?;
        let marked = self.execute(format!("COMMENT ON TABLE {name} IS '{MARK}'")).await;
        self.set_lock_timeout(LOCK_TIMEOUT).await?;
        marked?;
        self.execute(format!("ALTER TABLE delivery DETACH PARTITION {name} CONCURRENTLY")).await
    }

    /// Makes the statistics of delivery as a whole, where that is due; false where it was not.
    pub async fn analyze(&mut self) -> Result<bool> {
        let due = sqlx::query_file_scalar!("queries/retention_analyze_due.sql")
            .fetch_one(&mut self.connection)
            .await?;
        if due {
            self.execute("ANALYZE delivery".to_owned()).await?;
        }
        Ok(due)
    }

    /// Leaves the turn to others.
    pub async fn end(mut self) -> Result<()> {
        // The server learns of a closed connection a moment later only.
        self.execute("SELECT pg_advisory_unlock_all()".to_owned()).await?;
        Ok(self.connection.close().await?)
    }

    async fn set_lock_timeout(&mut self, lock_timeout: Duration) -> Result<()> {
        self.execute(format!("SET lock_timeout = {}", lock_timeout.as_millis())).await
    }

    /// Names in it come from the catalog and match `delivery_[0-9]{8}`.
    async fn execute(&mut self, statement: String) -> Result<()> {
        let executed = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut self.connection);
        match tokio::time::timeout(ANSWER_TIMEOUT, executed).await {
            Ok(executed) => Ok(executed.map(|_| ())?),
            // Not TooSlow, which is tried again on this connection: the server ends what takes long, and must be gone.
            Err(_) => Err(StoreError::Unavailable(format!("no answer within {ANSWER_TIMEOUT:?}"))),
        }
    }
}

fn or_for_ever(days: u32) -> i32 {
    if days == 0 { FOR_EVER_DAYS } else { i32::try_from(days).unwrap_or(FOR_EVER_DAYS) }
}

async fn partitions(connection: &mut PgConnection, days: u32) -> Result<Vec<Partition>> {
    let days = or_for_ever(days);
    let rows = bounded("looking at partitions", async {
        Ok(sqlx::query_file!("queries/retention_partitions.sql", days, MARK).fetch_all(connection).await?)
    })
    .await?;
    let state =
        |attached: bool, half_way: bool, ours: bool, past: bool, open: Option<(i64, BroadcastId)>| match (
            attached, open,
        ) {
            (false, _) if ours => PartitionState::Detached,
            (false, _) => PartitionState::Foreign,
            (true, _) if half_way => PartitionState::HalfWay { ours },
            (true, _) if !past => PartitionState::Kept,
            (true, Some((broadcasts, first))) => PartitionState::Waiting { broadcasts, first },
            (true, None) => PartitionState::Due,
        };
    Ok(rows
        .into_iter()
        .map(|r| Partition {
            state: state(r.attached, r.half_way, r.marked, r.past, r.first_open.map(|first| (r.open, first))),
            name: r.name,
            day: r.day,
            rows: r.rows,
        })
        .collect())
}
