//! Undoing what a provider's word did to devices: an operator has found that it was wrong.

use time::OffsetDateTime;

use crate::connect::Store;
use crate::error::{Result, StoreError};
use crate::ids::{DeviceId, ProviderId, Shard};

/// Devices that one step looks at, at most.
pub const RESTORE_STEP: usize = 1_000;
/// So often a step is tried, where a registration that comes at the same moment stands in the way.
const TRIES: u32 = 5;

/// What was done to the devices that are to be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restorable {
    Quarantined,
    /// Retired because the provider said that the token is gone.
    Unregistered,
}

/// Which of them; `None`: any.
#[derive(Debug, Clone)]
pub struct RestoreFilter {
    pub what: Restorable,
    pub provider: Option<ProviderId>,
    /// Exactly this code.
    pub code: Option<String>,
    /// Not before.
    pub from: Option<OffsetDateTime>,
    /// Before.
    pub to: Option<OffsetDateTime>,
}

/// How far the steps of a restoration have come: devices of this shard before this one are next.
pub type RestorePlace = (Shard, DeviceId);

/// What a step came to.
#[must_use]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restored {
    /// Devices that are called again.
    pub restored: i64,
    /// Devices that stay as they are, since their token or installation belongs to a newer one.
    pub superseded: i64,
    /// Where the next step begins; `None` after the last one.
    pub next: Option<RestorePlace>,
}

/// A device that a step found.
struct Found {
    until: Option<DeviceId>,
    id: Option<DeviceId>,
    superseded: bool,
}

impl Store {
    /// Restores what `filter` says among the next [`RESTORE_STEP`] retired or quarantined devices, the newest first, or with
    /// `count_only` only tells how many that would be. Done again from the beginning, it finds nothing more to do.
    pub async fn restore_step(
        &self,
        filter: &RestoreFilter,
        from: Option<RestorePlace>,
        count_only: bool,
    ) -> Result<Restored> {
        let shards = self.shards().await?;
        let (shard, before) = from.unwrap_or((0, DeviceId(i64::MAX)));
        let mut tried = 1;
        let mut step = loop {
            match self.restore_page(filter, shard, before, count_only).await {
                Err(error) if raced(&error, tried) => tried += 1,
                done => break done?,
            }
        };
        if step.next.is_none() {
            step.next = shards.all().find(|next| *next > shard).map(|next| (next, DeviceId(i64::MAX)));
        }
        Ok(step)
    }

    async fn restore_page(
        &self,
        filter: &RestoreFilter,
        shard: Shard,
        before: DeviceId,
        count_only: bool,
    ) -> Result<Restored> {
        let RestoreFilter { what, provider, code, from, to } = filter;
        let (limit, provider, code) = (RESTORE_STEP as i64, provider.map(|p| p.0), code.as_deref());
        let mut tx = self.pool.begin().await?;
        let found = match what {
            Restorable::Quarantined => {
                sqlx::query_file_as!(
                    Found,
                    "queries/device_restorable_quarantined.sql",
                    shard,
                    before.0,
                    limit,
                    provider,
                    code,
                    *from,
                    *to
                )
                .fetch_all(&mut *tx)
                .await?
            }
            Restorable::Unregistered => {
                let shards = self.shards().await?.list();
                sqlx::query_file_as!(
                    Found,
                    "queries/device_restorable_retired.sql",
                    shard,
                    before.0,
                    limit,
                    provider,
                    code,
                    *from,
                    *to,
                    &shards
                )
                .fetch_all(&mut *tx)
                .await?
            }
        };
        let next = found.first().and_then(|found| found.until).map(|until| (shard, until));
        let (restored, superseded) = restore(&mut tx, shard, &found, count_only).await?;
        tx.commit().await?;
        Ok(Restored { restored, superseded, next })
    }

    /// Restores those of `ids` that are quarantined, or were retired by a provider's word, in steps of [`RESTORE_STEP`]; the
    /// others are not counted.
    pub async fn restore_devices(&self, ids: &[DeviceId], count_only: bool) -> Result<Restored> {
        let shards = self.shards().await?;
        let list = shards.list();
        // The newest first: of several devices of one installation it is the last that is restored.
        let mut ids: Vec<DeviceId> = ids.to_vec();
        ids.sort_unstable();
        ids.reverse();
        let mut all = Restored::default();
        for step in ids.chunks(RESTORE_STEP) {
            for shard in shards.all() {
                let mut tried = 1;
                let done = loop {
                    match self.restore_listed(shard, &list, step, count_only).await {
                        Err(error) if raced(&error, tried) => tried += 1,
                        done => break done?,
                    }
                };
                all.restored += done.restored;
                all.superseded += done.superseded;
            }
        }
        Ok(all)
    }

    async fn restore_listed(
        &self,
        shard: Shard,
        shards: &[Shard],
        ids: &[DeviceId],
        count_only: bool,
    ) -> Result<Restored> {
        let mut tx = self.pool.begin().await?;
        let found =
            sqlx::query_file_as!(Found, "queries/device_restorable_listed.sql", shard, ids as _, shards)
                .fetch_all(&mut *tx)
                .await?;
        let (restored, superseded) = restore(&mut tx, shard, &found, count_only).await?;
        tx.commit().await?;
        Ok(Restored { restored, superseded, next: None })
    }
}

/// Whether a registration has just taken a token or an installation of the step, and the step may be tried again.
fn raced(error: &StoreError, tried: u32) -> bool {
    tried < TRIES && matches!(error, StoreError::Data(_))
}

/// Returns how many were restored, and how many are superseded.
async fn restore(
    tx: &mut sqlx::PgConnection,
    shard: Shard,
    found: &[Found],
    count_only: bool,
) -> Result<(i64, i64)> {
    let wanted = || found.iter().filter_map(|found| Some((found.id?, found.superseded)));
    let ids: Vec<DeviceId> = wanted().filter(|(_, superseded)| !superseded).map(|(id, _)| id).collect();
    let superseded = (wanted().count() - ids.len()) as i64;
    let restored = if count_only || ids.is_empty() {
        ids.len() as i64
    } else {
        sqlx::query_file_scalar!("queries/device_restore.sql", shard, &ids as _).fetch_one(tx).await?
    };
    Ok((restored, superseded))
}
