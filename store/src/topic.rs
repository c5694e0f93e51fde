//! Topics: which devices asked for what.

use crate::connect::Store;
use crate::error::Result;
use crate::ids::DeviceId;

/// What became of a request to subscribe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribed {
    /// Devices that were not subscribed before.
    pub subscribed: i64,
    /// Ids that are no live device, in order.
    pub unknown: Vec<DeviceId>,
}

impl Store {
    /// Adds live devices to a topic.
    pub async fn subscribe(&self, topic: &str, devices: &[DeviceId]) -> Result<Subscribed> {
        let shards = self.shards().await?.list();
        let subscribed =
            sqlx::query_file_as!(Subscribed, "queries/topic_subscribe.sql", &shards, topic, devices as _)
                .fetch_one(&self.pool)
                .await?;
        Ok(subscribed)
    }

    /// Takes devices out of a topic; returns how many were in it.
    pub async fn unsubscribe(&self, topic: &str, devices: &[DeviceId]) -> Result<i64> {
        let shards = self.shards().await?.list();
        let done = sqlx::query_file!("queries/topic_unsubscribe.sql", &shards, topic, devices as _)
            .execute(&self.pool)
            .await?;
        Ok(done.rows_affected().cast_signed())
    }
}
