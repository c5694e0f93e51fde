//! Who has a connection, where that is kept in Postgres.

use std::collections::HashSet;

use super::UserNo;
use crate::connect::{Store, bounded};
use crate::error::Result;
use crate::ids::SenderId;

/// Senders heard of within this many seconds have the connections that they announced.
const PRESENT_FOR_S: f64 = 3.0;

impl Store {
    pub async fn announce_presence(&self, sender: SenderId, users: &[UserNo]) -> Result<()> {
        let users: Vec<i64> = users.iter().map(|user| user.0).collect();
        bounded("presence", async {
            sqlx::query_file!("queries/presence_announce.sql", sender.0, &users).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    pub async fn withdraw_presence(&self, sender: SenderId, users: &[UserNo]) -> Result<()> {
        let users: Vec<i64> = users.iter().map(|user| user.0).collect();
        bounded("presence", async {
            sqlx::query_file!("queries/presence_withdraw.sql", sender.0, &users).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    pub async fn present_users(&self, users: &[UserNo]) -> Result<HashSet<UserNo>> {
        let users: Vec<i64> = users.iter().map(|user| user.0).collect();
        bounded("presence", async {
            let present = sqlx::query_file_scalar!("queries/presence_present.sql", &users, PRESENT_FOR_S)
                .fetch_all(&self.pool)
                .await?;
            Ok(present.into_iter().collect())
        })
        .await
    }
}
