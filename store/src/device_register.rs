//! Registering devices, one or 10,000 at a time, in one transaction and without a loop over rows.
//!
//! The devices that stand under the tokens and installations of a chunk are locked in order of shard and id; what happens
//! to them is decided by [`crate::device_plan`]; then each kind of change is one statement for each shard it concerns. Whoever registers the same token at the same
//! moment is noticed by the unique indexes: our insert then fails, the transaction is rolled back, and the next try finds
//! the other's device standing. Who keeps losing shuts the others out for its last try.

use std::time::Duration;

use rand::Rng as _;

use crate::connect::{Store, bounded};
use crate::device::Device;
use crate::device_plan::Chunk;
use crate::device_write::{Devices, carry_out};
use crate::error::{Result, StoreError};
use crate::ids::ProviderId;

/// Rows that one call may register at most.
pub const MAX_REGISTRATIONS: usize = 10_000;
/// How often a chunk is tried beside other registrations, before it is tried alone.
const SHARED_TRIES: u32 = 3;
/// The longest pause before the second try; it grows with the third.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Begins a transaction that registers devices, and may do so beside others. The plans of its statements are cached while
/// the table is still empty and must do when it is not.
const BEGIN_SHARED: &str = "BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; \
    SET LOCAL enable_mergejoin = off; SELECT pg_advisory_xact_lock_shared(hashtextextended('bongsu:register', 0))";
/// The same, alone: waits for the others to end, and makes those that come wait.
const BEGIN_ALONE: &str = "BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; \
    SET LOCAL enable_mergejoin = off; SELECT pg_advisory_xact_lock(hashtextextended('bongsu:register', 0))";

/// A valid request to register a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    pub provider_id: ProviderId,
    pub token: String,
    pub user_id: String,
    pub installation_id: Option<String>,
    /// None: true for a new device, unchanged for a known one.
    pub consent: Option<bool>,
    /// In addition to those it has.
    pub topics: Vec<String>,
}

impl Registration {
    pub(crate) fn token_key(&self) -> (ProviderId, &str) {
        (self.provider_id, &self.token)
    }

    pub(crate) fn installation_key(&self) -> Option<(ProviderId, &str)> {
        Some((self.provider_id, self.installation_id.as_deref()?))
    }
}

/// What became of one registration.
#[derive(Debug, Clone)]
pub struct Registered {
    pub device: Device,
    /// Whether it is a new device.
    pub created: bool,
}

/// What became of a chunk of registrations: `created + refreshed + superseded` is its number of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// Rows that made a new device.
    pub created: usize,
    /// Rows that named a device already known.
    pub refreshed: usize,
    /// Rows that a later row of the chunk, with the same token or installation, made void.
    pub superseded: usize,
    /// Devices retired because their token or installation was registered anew.
    pub retired: usize,
}

/// Why a try came to nothing, and was rolled back.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The devices are spread over another number of shards than this process knew.
    OtherShards,
    Sql(sqlx::Error),
    Store(StoreError),
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Failed> for StoreError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::OtherShards => Self::Unavailable("the number of shards was just changed".into()),
            Failed::Sql(error) => error.into(),
            Failed::Store(error) => error,
        }
    }
}

impl Store {
    /// Registers one device, or refreshes its registration.
    pub async fn register(&self, registration: &Registration) -> Result<Registered> {
        let chunk = Chunk::new(std::slice::from_ref(registration));
        let (imported, devices) = self.register_chunk(&chunk).await?;
        let id = devices.get(&registration.token_key()).copied();
        let device = match id {
            Some(id) => self.device(id).await?,
            None => None,
        };
        let device = device.ok_or_else(|| StoreError::Bug("a registered device is not there".into()))?;
        Ok(Registered { device, created: imported.created == 1 })
    }

    /// Registers up to [`MAX_REGISTRATIONS`] devices: all of them, or none where it fails.
    pub async fn import(&self, registrations: &[Registration]) -> Result<Imported> {
        if registrations.len() > MAX_REGISTRATIONS {
            return Err(StoreError::Bug(format!("{} registrations in one chunk", registrations.len())));
        }
        let chunk = Chunk::new(registrations);
        let (imported, _) = bounded("import", self.register_chunk(&chunk)).await?;
        Ok(imported)
    }

    async fn register_chunk<'a>(&self, chunk: &Chunk<'a>) -> Result<(Imported, Devices<'a>)> {
        if chunk.rows.is_empty() {
            return Ok((Imported::default(), Devices::new()));
        }
        for tried in 1..=SHARED_TRIES {
            match self.try_register(chunk, BEGIN_SHARED).await {
                Err(Failed::Sql(error)) if is_race(&error) => {}
                Err(Failed::OtherShards) => {
                    // Said anew since we read it, while there were no devices; from the first one on it stays.
                    self.read_shards(&mut *self.pool.acquire().await?).await?;
                    continue;
                }
                done => return Ok(done?),
            }
            let pause = rand::rng().random_range(Duration::ZERO..RETRY_PAUSE * tried);
            tokio::time::sleep(pause).await;
        }
        Ok(self.try_register(chunk, BEGIN_ALONE).await?)
    }

    async fn try_register<'a>(
        &self,
        chunk: &Chunk<'a>,
        begin: &'static str,
    ) -> Result<(Imported, Devices<'a>), Failed> {
        let shards = self.shards().await.map_err(Failed::Store)?;
        let mut tx = self.pool.begin_with(begin).await?;
        match carry_out(&mut tx, chunk, shards).await {
            Ok(done) => {
                tx.commit().await?;
                Ok(done)
            }
            Err(error) => {
                // Now, and not when the connection is next used: others wait for our locks.
                let _ = tx.rollback().await;
                Err(error)
            }
        }
    }
}

/// Whether the error only says that somebody else was at the same devices: unique_violation, deadlock_detected,
/// serialization_failure.
fn is_race(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    matches!(code.as_deref(), Some("23505" | "40P01" | "40001"))
}
