//! Presence: who has a connection at any sender. Gone with its sender, at the latest seconds after it died.

mod in_redis;

use std::collections::HashSet;

use bongsu_store::{SenderId, Store, UserNo};

use crate::LiveArgs;
use crate::error::LiveError;
use crate::link::Link;
use crate::presence::in_redis::InRedis;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Presence(Kept);

#[derive(Debug, Clone)]
enum Kept {
    Postgres(Store),
    Redis(InRedis),
}

impl Presence {
    pub fn new(args: &LiveArgs, store: Store) -> Self {
        Self(Link::new(args).map_or(Kept::Postgres(store), |link| Kept::Redis(InRedis::new(link))))
    }

    /// Says that these users have a connection at this sender. To be said again of all of them every ten seconds: where it is kept
    /// may have forgotten it.
    pub async fn announce(&self, sender: SenderId, users: &[UserNo]) -> Result<(), LiveError> {
        match &self.0 {
            Kept::Postgres(store) => Ok(store.announce_presence(sender, users).await?),
            Kept::Redis(redis) => redis.announce(sender, users).await,
        }
    }

    /// Says that these users have none there any more.
    pub async fn withdraw(&self, sender: SenderId, users: &[UserNo]) -> Result<(), LiveError> {
        match &self.0 {
            Kept::Postgres(store) => Ok(store.withdraw_presence(sender, users).await?),
            Kept::Redis(redis) => redis.withdraw(sender, users).await,
        }
    }

    /// Who of these users has a connection at any sender. Treat an error as nobody.
    pub async fn present(&self, users: &[UserNo]) -> Result<HashSet<UserNo>, LiveError> {
        match &self.0 {
            Kept::Postgres(store) => Ok(store.present_users(users).await?),
            Kept::Redis(redis) => redis.present(users).await,
        }
    }
}
