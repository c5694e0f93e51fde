//! Registering devices, one or 10,000 at a time, in one transaction and without a loop over rows.
//!
//! The devices that stand under the tokens and installations of a chunk are locked in order of id; what happens to them
//! is decided by [`plan`]; then each kind of change is one statement. Whoever registers the same token at the same
//! moment is noticed by the unique indexes: our insert then fails, the transaction is rolled back, and the next try finds
//! the other's device standing. Who keeps losing shuts the others out for its last try.

use std::collections::HashMap;
use std::time::Duration;

use rand::Rng as _;
use sqlx::PgConnection;

use crate::connect::{Store, bounded};
use crate::device::Device;
use crate::device_plan::{Chunk, NewDevice, Plan, Standing, plan};
use crate::error::{Result, StoreError};
use crate::ids::{DeviceId, ProviderId, SHARD};

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

/// The devices a chunk ended up with.
type Devices<'a> = HashMap<(ProviderId, &'a str), DeviceId>;

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
                Err(error) if is_race(&error) => {}
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
    ) -> Result<(Imported, Devices<'a>), sqlx::Error> {
        let mut tx = self.pool.begin_with(begin).await?;
        match carry_out(&mut tx, chunk).await {
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

async fn carry_out<'a>(
    tx: &mut PgConnection,
    chunk: &Chunk<'a>,
) -> Result<(Imported, Devices<'a>), sqlx::Error> {
    let standing = lock_standing(tx, chunk).await?;
    let plan = plan(chunk, &standing);
    retire(tx, &plan).await?;
    refresh(tx, &plan).await?;
    let mut devices: Devices<'a> = plan.refresh.iter().map(|(id, row)| (row.token_key(), *id)).collect();
    insert(tx, &plan.insert, &mut devices).await?;
    inherit_topics(tx, &plan, &devices).await?;
    add_topics(tx, chunk, &devices).await?;
    let imported = Imported {
        created: plan.insert.len(),
        refreshed: plan.refresh.len(),
        superseded: chunk.superseded,
        retired: plan.retire.len(),
    };
    Ok((imported, devices))
}

/// Whether the error only says that somebody else was at the same devices: unique_violation, deadlock_detected,
/// serialization_failure.
fn is_race(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    matches!(code.as_deref(), Some("23505" | "40P01" | "40001"))
}

async fn lock_standing(tx: &mut PgConnection, chunk: &Chunk<'_>) -> Result<Vec<Standing>, sqlx::Error> {
    let (token_providers, tokens): (Vec<_>, Vec<_>) = chunk.tokens().map(|(p, t)| (p.0, t)).unzip();
    let (providers, installations): (Vec<_>, Vec<_>) = chunk.installations().map(|(p, i)| (p.0, i)).unzip();
    sqlx::query_file_as!(
        Standing,
        "queries/device_lock.sql",
        SHARD,
        &token_providers,
        &tokens as _,
        &providers,
        &installations as _
    )
    .fetch_all(tx)
    .await
}

async fn retire(tx: &mut PgConnection, plan: &Plan<'_>) -> Result<(), sqlx::Error> {
    if !plan.retire.is_empty() {
        sqlx::query_file!("queries/device_retire.sql", SHARD, &plan.retire as _).execute(&mut *tx).await?;
    }
    if !plan.vacate.is_empty() {
        sqlx::query_file!("queries/device_vacate.sql", SHARD, &plan.vacate as _).execute(&mut *tx).await?;
    }
    Ok(())
}

async fn refresh(tx: &mut PgConnection, plan: &Plan<'_>) -> Result<(), sqlx::Error> {
    if plan.refresh.is_empty() {
        return Ok(());
    }
    let ids: Vec<DeviceId> = plan.refresh.iter().map(|(id, _)| *id).collect();
    let consents: Vec<Option<bool>> = plan.refresh.iter().map(|(_, row)| row.consent).collect();
    let installations: Vec<Option<&str>> =
        plan.refresh.iter().map(|(_, row)| row.installation_id.as_deref()).collect();
    sqlx::query_file!("queries/device_refresh.sql", SHARD, &ids as _, &consents as _, &installations as _)
        .execute(tx)
        .await?;
    Ok(())
}

/// Makes the new devices and adds them to `devices`.
async fn insert<'a>(
    tx: &mut PgConnection,
    new: &[NewDevice<'a>],
    devices: &mut Devices<'a>,
) -> Result<(), sqlx::Error> {
    if new.is_empty() {
        return Ok(());
    }
    let rows = || new.iter().map(|new| new.registration);
    let providers: Vec<i16> = rows().map(|row| row.provider_id.0).collect();
    let tokens: Vec<&str> = rows().map(|row| row.token.as_str()).collect();
    let users: Vec<&str> = rows().map(|row| row.user_id.as_str()).collect();
    let installations: Vec<Option<&str>> = rows().map(|row| row.installation_id.as_deref()).collect();
    let consents: Vec<bool> = new.iter().map(|new| new.consent).collect();
    let made = sqlx::query_file!(
        "queries/device_insert.sql",
        SHARD,
        &providers,
        &tokens as _,
        &users as _,
        &installations as _,
        &consents
    )
    .fetch_all(tx)
    .await?;
    let ids: HashMap<_, _> =
        made.iter().map(|made| ((made.provider_id, made.token.as_str()), made.id)).collect();
    devices.extend(rows().filter_map(|row| Some((row.token_key(), *ids.get(&row.token_key())?))));
    Ok(())
}

/// Hands the topics of replaced devices on where the user is the same, and takes them away.
async fn inherit_topics(
    tx: &mut PgConnection,
    plan: &Plan<'_>,
    devices: &Devices<'_>,
) -> Result<(), sqlx::Error> {
    let (ancestors, heirs): (Vec<DeviceId>, Vec<DeviceId>) = plan
        .insert
        .iter()
        .flat_map(|new| new.ancestors.iter().map(move |ancestor| (ancestor, new.registration.token_key())))
        .filter_map(|(ancestor, heir)| Some((*ancestor, *devices.get(&heir)?)))
        .unzip();
    if !ancestors.is_empty() {
        sqlx::query_file!("queries/topic_inherit.sql", SHARD, &ancestors as _, &heirs as _)
            .execute(&mut *tx)
            .await?;
    }
    if !plan.retire.is_empty() {
        let retired = &plan.retire;
        sqlx::query!(
            "DELETE FROM device_topic WHERE shard = $1 AND device_id = ANY ($2)",
            SHARD,
            retired as _
        )
        .execute(tx)
        .await?;
    }
    Ok(())
}

async fn add_topics(
    tx: &mut PgConnection,
    chunk: &Chunk<'_>,
    devices: &Devices<'_>,
) -> Result<(), sqlx::Error> {
    let (mut topics, mut providers, mut ids) = (vec![], vec![], vec![]);
    for row in &chunk.rows {
        let Some(id) = devices.get(&row.token_key()) else { continue };
        for topic in &row.topics {
            topics.push(topic.as_str());
            providers.push(row.provider_id.0);
            ids.push(*id);
        }
    }
    if !topics.is_empty() {
        sqlx::query_file!("queries/topic_add.sql", SHARD, &topics as _, &providers, &ids as _)
            .execute(tx)
            .await?;
    }
    Ok(())
}
