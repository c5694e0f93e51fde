//! Accepting broadcasts: once per idempotency key, all or nothing.

mod short;

use std::collections::BTreeMap;

use sqlx::PgConnection;
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::broadcast::*;
use crate::broadcast_read::BroadcastRow;
use crate::connect::Store;
use crate::counts::{Counts, LiveCounts};
use crate::error::Result;
use crate::fan_out::{self, LIVE_PAGE_DEVICES};
use crate::ids::{BroadcastId, DeviceId};

pub(crate) use short::ShortLists;

/// Ids in one row of an explicit audience, and so in one page of its fan-out.
pub(crate) const AUDIENCE_ROW_IDS: i64 = 10_000;

impl Store {
    /// Stores a broadcast, or finds the one that its idempotency key stands for. All or nothing, also when the caller
    /// goes away in the middle.
    pub async fn accept(&self, new: &NewBroadcast) -> Result<Acceptance> {
        // Looked for first, since a reader waits for nobody: the insert would wait for a page of this very broadcast's
        // fan-out to commit. What stores short lists looks for itself.
        if !new.is_short_list()
            && let Some(found) = self.accepted(new).await?
        {
            return Ok(found);
        }
        let inserted = match self.insert(new).await {
            Err(e) if fan_out::is_missing_partition(&e) => {
                self.ensure_partitions().await?;
                self.insert(new).await?
            }
            other => other?,
        };
        if let Some(stored) = inserted {
            return Ok(Acceptance::New(Box::new(stored)));
        }
        // Somebody was faster. A second statement, with a snapshot of its own: the winner is visible now.
        match self.accepted(new).await? {
            Some(found) => Ok(found),
            None => {
                let now = self.now().await?;
                Ok(times(new, now).err().unwrap_or(Acceptance::ExpiryOutOfRange {
                    start: new.schedule.map_or(now, |at| at.max(now)),
                    scheduled: new.schedule.is_some_and(|at| at > now),
                }))
            }
        }
    }

    /// What the broadcast's key stands for, if anything.
    pub async fn accepted(&self, new: &NewBroadcast) -> Result<Option<Acceptance>> {
        self.existing(&new.client_id, &new.idempotency_key, &new.request_hash).await
    }

    /// What [`Store::accept`] would do, without storing anything.
    pub async fn check(&self, new: &NewBroadcast) -> Result<Check> {
        if let Some(found) = self.accepted(new).await? {
            return Ok(Check::Otherwise(found));
        }
        let now = self.now().await?;
        Ok(match times(new, now) {
            Ok((scheduled_at, expires_at)) => Check::WouldAccept { now, scheduled_at, expires_at },
            Err(refused) => Check::Otherwise(refused),
        })
    }

    /// None where the key stands already, or start or expiry are out of range.
    async fn insert(&self, new: &NewBroadcast) -> Result<Option<Broadcast>> {
        if new.is_short_list() {
            return self.insert_short(new).await;
        }
        let row = if new.audience.listed() == 0 {
            // One statement is a transaction of its own.
            insert_broadcast(&mut *self.pool.acquire().await?, new).await?
        } else {
            let mut tx = self.pool.begin().await?;
            let Some(row) = insert_broadcast(&mut tx, new).await? else { return Ok(None) };
            let row_ids = if new.routing.is_live() { LIVE_PAGE_DEVICES } else { AUDIENCE_ROW_IDS };
            insert_audience(&mut tx, row.id, &new.audience, row_ids).await?;
            tx.commit().await?;
            Some(row)
        };
        Ok(row.map(|row| row.with_counts(Counts::default(), LiveCounts::default())))
    }

    async fn insert_short(&self, new: &NewBroadcast) -> Result<Option<Broadcast>> {
        let Some(stored) = self.short_lists.store(new).await? else { return Ok(None) };
        if stored.deliveries == 0 && new.routing.pushes() {
            // Nobody of the list has a device: nothing is left to do.
            self.complete(&[stored.id]).await?;
            let broadcast = self.broadcast(stored.id).await?;
            return Ok(broadcast.map(|broadcast| Broadcast { told: stored.told, ..broadcast }));
        }
        Ok(Some(stored.broadcast(new)))
    }

    /// What the key stands for, if anything.
    pub(crate) async fn existing(&self, client: &str, key: &str, hash: &[u8]) -> Result<Option<Acceptance>> {
        let row = sqlx::query_file_as!(BroadcastRow, "queries/broadcast_by_key.sql", client, key)
            .fetch_optional(&self.pool)
            .await?;
        let Some(row) = row else { return Ok(None) };
        if row.request_hash != hash {
            return Ok(Some(Acceptance::KeyReused(row.id)));
        }
        Ok(Some(Acceptance::Replayed(Box::new(self.with_counts(row).await?))))
    }

    /// The database's clock.
    async fn now(&self) -> Result<OffsetDateTime> {
        Ok(sqlx::query_scalar!(r#"SELECT now() AS "now!""#).fetch_one(&self.pool).await?)
    }
}

/// When it would start, where not at once, and expire; or why it cannot.
fn times(
    new: &NewBroadcast,
    now: OffsetDateTime,
) -> Result<(Option<OffsetDateTime>, OffsetDateTime), Acceptance> {
    let scheduled_at = new.schedule.filter(|at| *at > now);
    let start = scheduled_at.unwrap_or(now);
    if start > now + MOST_AHEAD {
        return Err(Acceptance::TooFarAhead { now });
    }
    let (least, most) = EXPIRY_RANGE;
    let expires_at = match new.expiry {
        Expiry::After(ttl) => start + ttl,
        Expiry::At(moment) => moment,
    };
    if expires_at < start + least || expires_at > start + most {
        return Err(Acceptance::ExpiryOutOfRange { start, scheduled: scheduled_at.is_some() });
    }
    Ok((scheduled_at, expires_at))
}

async fn insert_broadcast(tx: &mut PgConnection, new: &NewBroadcast) -> Result<Option<BroadcastRow>> {
    let (kind, topics): (_, &[String]) = match &new.audience {
        Audience::Everyone => (AudienceKind::Everyone, &[]),
        Audience::Topics(topics) => (AudienceKind::Topics, topics),
        Audience::Users(_) => (AudienceKind::Users, &[]),
        Audience::Devices(_) => (AudienceKind::Devices, &[]),
    };
    let (seconds, moment) = match new.expiry {
        Expiry::After(ttl) => (Some(ttl.as_secs_f64()), None),
        Expiry::At(moment) => (None, Some(moment)),
    };
    let (least, most) = EXPIRY_RANGE;
    Ok(sqlx::query_file_as!(
        BroadcastRow,
        "queries/broadcast_insert.sql",
        new.client_id,
        new.idempotency_key,
        &new.request_hash[..],
        new.message.title,
        new.message.body,
        Json(&new.message.data) as _,
        new.priority as _,
        kind as _,
        seconds,
        moment,
        topics,
        i32::try_from(new.audience.listed()).unwrap_or(i32::MAX),
        new.schedule,
        least.as_secs_f64(),
        most.as_secs_f64(),
        new.guarantee as _,
        MOST_AHEAD.as_secs_f64(),
        new.max_rate_per_second.and_then(|rate| i32::try_from(rate).ok()),
        new.trace_context,
        new.routing as _,
        new.ack_timeout.map(|timeout| timeout.as_secs_f64()),
    )
    .fetch_optional(tx)
    .await?)
}

/// The list, in rows of up to `row_ids`: a row is a page of fan-out.
async fn insert_audience(
    tx: &mut PgConnection,
    id: BroadcastId,
    audience: &Audience,
    row_ids: i64,
) -> Result<()> {
    let (users, devices): (&[String], Vec<i64>) = match audience {
        Audience::Users(users) => (users, vec![]),
        Audience::Devices(devices) => (&[], devices.iter().map(|DeviceId(id)| *id).collect()),
        Audience::Everyone | Audience::Topics(_) => (&[], vec![]),
    };
    sqlx::query_file!("queries/broadcast_audience_insert.sql", id.0, users, &devices, row_ids)
        .execute(tx)
        .await?;
    Ok(())
}
