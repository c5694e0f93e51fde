//! What a sender asks before a push that waits for acknowledgements: how the user of each delivery stands with the event.

use std::time::Duration;

use super::UserNo;
use crate::claim::{ClaimLane, LeasedBatch};
use crate::error::Result;
use crate::ids::DeviceId;
use crate::shards::by_shard;

/// The event of a delivery's user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueEvent {
    pub user: UserNo,
    /// By any of the user's clients.
    pub acknowledged: bool,
    /// Since it was made, by the database's clock.
    pub age: Duration,
}

impl ClaimLane {
    /// The event that the user of each of these deliveries has of the broadcast; none where there is none.
    pub async fn events_of(
        &mut self,
        deliveries: &[(LeasedBatch, DeviceId)],
    ) -> Result<Vec<Option<DueEvent>>> {
        let mut events = vec![None; deliveries.len()];
        for (shard, indexes) in by_shard(0..deliveries.len(), |i| deliveries[*i].0.shard) {
            let broadcasts: Vec<i64> = indexes.iter().map(|i| deliveries[*i].0.broadcast.0).collect();
            let devices: Vec<i64> = indexes.iter().map(|i| deliveries[*i].1.0).collect();
            let rows = self
                .lane
                .run("read of events", async |connection| {
                    Ok(sqlx::query_file!("queries/live_due.sql", shard, &broadcasts, &devices)
                        .fetch_all(connection)
                        .await?)
                })
                .await?;
            for row in rows {
                let index = usize::try_from(row.n - 1).ok().and_then(|n| indexes.get(n));
                if let Some(event) = index.and_then(|i| events.get_mut(*i)) {
                    let age = Duration::try_from_secs_f64(row.age).unwrap_or_default();
                    *event = Some(DueEvent { user: row.user, acknowledged: row.acknowledged, age });
                }
            }
        }
        Ok(events)
    }
}
