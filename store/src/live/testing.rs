//! Events for tests of what becomes of them.

use std::collections::BTreeMap;

use super::{Told, UserNo, events};
use crate::connect::Store;
use crate::error::Result;
use crate::ids::BroadcastId;

/// Gives each user with a delivery of the broadcast an event of it, where they have none, and returns all who have one.
pub async fn make_events(store: &Store, id: BroadcastId) -> BTreeMap<String, UserNo> {
    let missing: Vec<String> = sqlx::query_scalar(
        "SELECT DISTINCT v.user_id
         FROM delivery d JOIN device v ON v.shard = d.shard AND v.id = d.device_id
         WHERE d.broadcast_id = $1
           AND NOT EXISTS (SELECT FROM inbox i JOIN inbox_user u ON u.id = i.user_no
                           WHERE i.broadcast_id = $1 AND u.user_id = v.user_id)",
    )
    .bind(id.0)
    .fetch_all(&store.pool)
    .await
    .expect("deliveries are read");
    let pairs: Vec<(BroadcastId, &str)> = missing.iter().map(|user| (id, user.as_str())).collect();
    store.test_events(&pairs).await.expect("events are made");
    let users: Vec<(String, i64)> = sqlx::query_as(
        "SELECT u.user_id, u.id FROM inbox i JOIN inbox_user u ON u.id = i.user_no WHERE i.broadcast_id = $1",
    )
    .bind(id.0)
    .fetch_all(&store.pool)
    .await
    .expect("events are read");
    users.into_iter().map(|(user, no)| (user, UserNo(no))).collect()
}

impl Store {
    /// Puts an event of each of these broadcasts into the inbox of its user, as fan-out does.
    pub async fn test_events(&self, pairs: &[(BroadcastId, &str)]) -> Result<Told> {
        let mut tx = self.pool.begin().await?;
        let told = events::make(&mut tx, pairs).await?;
        tx.commit().await?;
        Ok(told.into_iter().map(|(_, user)| user).collect())
    }
}
