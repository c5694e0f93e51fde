//! Acknowledging: a client of a user says that it has a notification. A push that waits for that is not needed any more.

use crate::connect::{Store, bounded};
use crate::error::Result;
use crate::ids::BroadcastId;

use super::UserNo;

/// Acknowledgements that are noted at a time, at most: their rows are locked until it is done.
pub const MOST_ACKNOWLEDGED: usize = 1_000;
/// Batches made due in one statement.
const STEP_WAKE: i64 = 1_000;

impl Store {
    /// Notes that these users have their events of these broadcasts, and returns of how many that is news. Those that are not there, or
    /// not theirs, are passed over. At most [`MOST_ACKNOWLEDGED`] a transaction: after an error, some may have been noted, and all can
    /// be said again.
    pub async fn acknowledge(&self, acks: &[(UserNo, BroadcastId)]) -> Result<usize> {
        let mut new = 0;
        for acks in acks.chunks(MOST_ACKNOWLEDGED) {
            let (noted, everybody) = bounded("acknowledgements", self.note(acks)).await?;
            new += noted;
            // Apart from the note, which must not wait for whoever has a batch. Where it fails, the deadline does the same later.
            if !everybody.is_empty()
                && let Err(error) = self.wake_acknowledged(&everybody).await
            {
                tracing::warn!("what waits for acknowledgements that all came is looked at later: {error}");
            }
        }
        Ok(new)
    }

    /// How many were new, and the broadcasts of which all events are acknowledged now.
    async fn note(&self, acks: &[(UserNo, BroadcastId)]) -> Result<(usize, Vec<BroadcastId>)> {
        let (users, broadcasts): (Vec<i64>, Vec<i64>) =
            acks.iter().map(|(user, broadcast)| (user.0, broadcast.0)).unzip();
        let mut tx = self.pool.begin().await?;
        let noted = sqlx::query_file!("queries/live_acknowledge.sql", &users, &broadcasts)
            .fetch_all(&mut *tx)
            .await?;
        if noted.is_empty() {
            return Ok((0, vec![]));
        }
        let (ids, counts): (Vec<i64>, Vec<i64>) =
            noted.iter().map(|row| (row.broadcast.0, row.events)).unzip();
        let everybody = sqlx::query_file_scalar!("queries/live_acknowledged.sql", &ids, &counts)
            .fetch_all(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok((usize::try_from(counts.iter().sum::<i64>()).unwrap_or(usize::MAX), everybody))
    }

    /// Makes what waits of these broadcasts due, where it waits for acknowledgements that have all come. Like the completion it is for
    /// both to ask who may have been the last, once their own work is committed: who acknowledged, and who made something wait.
    pub async fn wake_acknowledged(&self, ids: &[BroadcastId]) -> Result<()> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        for shard in self.shards().await?.all() {
            let step = || {
                bounded("wake", async {
                    let woken = sqlx::query_file!("queries/live_wake.sql", shard, STEP_WAKE, &ids);
                    Ok(woken.execute(&self.pool).await?.rows_affected())
                })
            };
            while step().await? >= STEP_WAKE.unsigned_abs() {}
        }
        Ok(())
    }
}
