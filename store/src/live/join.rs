//! Who connects: their numbers, and what all streams have in common.

use std::collections::{BTreeSet, HashMap};

use super::UserNo;
use crate::connect::{Store, bounded};
use crate::error::{Result, StoreError};

impl Store {
    /// The number of each of these users, in their order; those that have none get one. Ids of users are those that registration
    /// takes: 1 to 256 bytes, without NUL.
    pub async fn live_join(&self, users: &[String]) -> Result<Vec<UserNo>> {
        bounded("joining", async {
            let mut numbers = HashMap::new();
            self.find_known(users.iter().map(String::as_str).collect(), &mut numbers).await?;
            // Only those that are missing: a number is used up even where its row turns out to be there.
            let missing: Vec<&str> = without_number(users, &numbers).into_iter().collect();
            if !missing.is_empty() {
                let made = sqlx::query_file!("queries/inbox_join.sql", &missing as _).fetch_all(&self.pool);
                numbers.extend(made.await?.into_iter().map(|row| (row.user_id, row.id)));
                // Somebody was faster with these, and has committed: a statement that begins now sees them.
                self.find_known(without_number(users, &numbers), &mut numbers).await?;
            }
            let number = |user: &String| numbers.get(user).copied();
            users
                .iter()
                .map(number)
                .collect::<Option<_>>()
                .ok_or_else(|| StoreError::Unavailable("a user was removed while they connected".to_owned()))
        })
        .await
    }

    async fn find_known(&self, users: BTreeSet<&str>, numbers: &mut HashMap<String, UserNo>) -> Result<()> {
        if users.is_empty() {
            return Ok(());
        }
        let users: Vec<&str> = users.into_iter().collect();
        let known = sqlx::query_file!("queries/inbox_known.sql", &users as _).fetch_all(&self.pool).await?;
        numbers.extend(known.into_iter().map(|row| (row.user_id, row.id)));
        Ok(())
    }

    /// What event ids begin with.
    pub async fn inbox_epoch(&self) -> Result<i64> {
        bounded("the epoch", async {
            Ok(sqlx::query_scalar!("SELECT inbox_epoch FROM settings").fetch_one(&self.pool).await?)
        })
        .await
    }

    /// Begins another epoch, so that no event id from before is taken for one of now. Returns the old one and the new one.
    pub async fn new_inbox_epoch(&self) -> Result<(i64, i64)> {
        bounded("a new epoch", async {
            let epochs = sqlx::query_file!("queries/inbox_new_epoch.sql").fetch_one(&self.pool).await?;
            Ok((epochs.old, epochs.new))
        })
        .await
    }

    /// What tickets are signed with. Secret.
    pub async fn ticket_key(&self) -> Result<Vec<u8>> {
        bounded("the key of tickets", async {
            Ok(sqlx::query_scalar!("SELECT ticket_key FROM settings").fetch_one(&self.pool).await?)
        })
        .await
    }
}

fn without_number<'a>(users: &'a [String], numbers: &HashMap<String, UserNo>) -> BTreeSet<&'a str> {
    users.iter().map(String::as_str).filter(|user| !numbers.contains_key(*user)).collect()
}
