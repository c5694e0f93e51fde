//! Shards: what keeps each hot statement on one node where the tables are distributed. A plain Postgres needs one.
//!
//! A device's shard follows from its provider and token and never changes; whatever is made for the device (topics,
//! deliveries, batches, dead letters) lies in the same. How many there are is said once, while there are no devices. A
//! process may find out late, up to a second: so a registration is refused by its own insert where the number it went by is
//! not that of the database, and what decides who gets a broadcast (a page of fan-out, an acceptance) reads the number in
//! the same transaction. Everything else only looks for work, and finds that of other shards a second later.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI16, Ordering};

use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;

use crate::connect::Store;
use crate::error::Result;
use crate::ids::{ProviderId, Shard};

/// Shards at most: a claim that finds nothing asks each of them.
pub const MAX_SHARDS: i16 = 256;

/// How many shards the tables have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shards(pub i16);

impl Shards {
    /// All of them, in the order in which whoever needs several takes them.
    pub fn all(self) -> Range<Shard> {
        0..self.0
    }

    /// For statements that ask several.
    pub fn list(self) -> Vec<Shard> {
        self.all().collect()
    }

    /// Where the device with this token is: the first four bytes of the SHA-256 of `provider:token`, as a number, modulo the
    /// shards. It is the same on every machine, in every version, and in SQL (`queries/doctor_shards.sql`).
    pub fn of(self, provider: ProviderId, token: &str) -> Shard {
        if self.0 == 1 {
            return 0;
        }
        let hash = Sha256::new().chain_update(format!("{provider}:")).chain_update(token).finalize();
        let number = hash.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte));
        i16::try_from(number % u32::from(self.0.unsigned_abs())).unwrap_or_default()
    }
}

/// What this process read last; 0 before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known(Arc<AtomicI16>);

impl Known {
    fn get(&self) -> Option<Shards> {
        Some(self.0.load(Ordering::Relaxed)).filter(|shards| *shards > 0).map(Shards)
    }

    pub fn note(&self, shards: Shards) {
        self.0.store(shards.0, Ordering::Relaxed);
    }
}

/// What became of a request to spread devices over so many shards.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetShards {
    /// It is so now.
    Set,
    /// It was so before.
    Unchanged,
    /// There are devices, and they are spread over so many.
    Devices { shards: i16 },
    /// Not between 1 and [`MAX_SHARDS`].
    OutOfRange,
}

impl Store {
    /// Says over how many shards devices are spread; possible only while there are none.
    pub async fn set_shards(&self, shards: i16) -> Result<SetShards> {
        if !(1..=MAX_SHARDS).contains(&shards) {
            return Ok(SetShards::OutOfRange);
        }
        // Who registers holds this lock shared until its devices are committed, so there are none under way, either.
        let mut tx = self
            .pool
            .begin_with("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('bongsu:register', 0))")
            .await?;
        let before = read(&mut tx).await?;
        if before.0 == shards {
            // Now, and not when the connection is next used: whoever registers waits for the lock.
            tx.rollback().await?;
            return Ok(SetShards::Unchanged);
        }
        let set =
            sqlx::query!("UPDATE settings SET shards = $1 WHERE NOT EXISTS (SELECT FROM device)", shards)
                .execute(&mut *tx)
                .await?;
        if set.rows_affected() == 0 {
            tx.rollback().await?;
            return Ok(SetShards::Devices { shards: before.0 });
        }
        tx.commit().await?;
        self.known_shards.note(Shards(shards));
        Ok(SetShards::Set)
    }

    /// The number as this process knows it.
    pub(crate) async fn shards(&self) -> Result<Shards> {
        match self.known_shards.get() {
            Some(shards) => Ok(shards),
            None => self.read_shards(&mut *self.pool.acquire().await?).await,
        }
    }

    /// The number as the database has it now.
    pub(crate) async fn read_shards(&self, connection: &mut PgConnection) -> Result<Shards> {
        let shards = read(connection).await?;
        self.known_shards.note(shards);
        Ok(shards)
    }
}

async fn read(connection: &mut PgConnection) -> Result<Shards> {
    Ok(Shards(sqlx::query_scalar!("SELECT shards FROM settings").fetch_one(connection).await?))
}

/// Sorts by shard: work is taken shard by shard, in this order, so that two who need several never wait for each other.
pub(crate) fn by_shard<T>(
    items: impl IntoIterator<Item = T>,
    shard: impl Fn(&T) -> Shard,
) -> BTreeMap<Shard, Vec<T>> {
    let mut sorted: BTreeMap<Shard, Vec<T>> = BTreeMap::new();
    for item in items {
        sorted.entry(shard(&item)).or_default().push(item);
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_stays_in_its_shard_for_ever() {
        let of = |shards: i16, token: &str| Shards(shards).of(ProviderId(1), token);
        // These must not change: devices lie where they say.
        assert_eq!([of(4, "a"), of(4, "b"), of(4, "봉수"), of(256, "a"), of(256, "b")], [1, 2, 1, 221, 134]);
        assert_eq!(of(1, "a"), 0);
    }

    #[test]
    fn tokens_are_spread_evenly() {
        let shards = Shards(4);
        let sorted = by_shard(0..10_000, |n| shards.of(ProviderId(1), &format!("token-{n}")));
        assert_eq!(sorted.len(), 4);
        for (shard, tokens) in sorted {
            assert!((2_300..2_700).contains(&tokens.len()), "{} in shard {shard}", tokens.len());
        }
    }
}
