//! Accepting broadcasts: once per idempotency key, all or nothing.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::broadcast::*;
use crate::broadcast_read::BroadcastRow;
use crate::connect::{BEGIN_WITH_STABLE_PLANS, Store};
use crate::counts::Counts;
use crate::error::Result;
use crate::fan_out::{self, Page};
use crate::ids::{BroadcastId, DeviceId, ProviderId, Shard};
use crate::shards::Shards;

/// Ids in one row of an explicit audience, and so in one page of its fan-out.
const AUDIENCE_ROW_IDS: i64 = 10_000;
/// An explicit audience of at most this many ids is fanned out in the transaction that accepts it.
const FAN_OUT_AT_ONCE_IDS: usize = 500;

impl Store {
    /// Stores a broadcast, or finds the one that its idempotency key stands for. All or nothing, also when the caller
    /// goes away in the middle.
    pub async fn accept(&self, new: &NewBroadcast) -> Result<Acceptance> {
        // Looked for first, since a reader waits for nobody: the insert would wait for a page of this very broadcast's
        // fan-out to commit.
        if let Some(found) = self.existing(&new.client_id, &new.idempotency_key, &new.request_hash).await? {
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
        match self.existing(&new.client_id, &new.idempotency_key, &new.request_hash).await? {
            Some(found) => Ok(found),
            None => Ok(Acceptance::ExpiryOutOfRange { now: self.now().await? }),
        }
    }

    /// What the broadcast's key stands for, if anything.
    pub async fn accepted(&self, new: &NewBroadcast) -> Result<Option<Acceptance>> {
        self.existing(&new.client_id, &new.idempotency_key, &new.request_hash).await
    }

    /// What [`Store::accept`] would do, without storing anything.
    pub async fn check(&self, new: &NewBroadcast) -> Result<Check> {
        if let Some(found) = self.existing(&new.client_id, &new.idempotency_key, &new.request_hash).await? {
            return Ok(Check::Otherwise(found));
        }
        let now = self.now().await?;
        let expires_at = match new.expiry {
            Expiry::After(ttl) => now + ttl,
            Expiry::At(moment) => moment,
        };
        let (least, most) = EXPIRY_RANGE;
        if expires_at < now + least || expires_at > now + most {
            return Ok(Check::Otherwise(Acceptance::ExpiryOutOfRange { now }));
        }
        Ok(Check::WouldAccept { now, expires_at })
    }

    /// None where the key stands already, or the expiry is out of range.
    async fn insert(&self, new: &NewBroadcast) -> Result<Option<Broadcast>> {
        let listed = new.audience.listed();
        if listed == 0 {
            // One statement is a transaction of its own.
            let row =
                insert_broadcast(&mut *self.pool.acquire().await?, new, BroadcastState::Accepted).await?;
            return Ok(row.map(|row| row.with_counts(Counts::default())));
        }
        let at_once = listed <= FAN_OUT_AT_ONCE_IDS;
        let state = if at_once { BroadcastState::Delivering } else { BroadcastState::Accepted };
        let begin = if at_once { BEGIN_WITH_STABLE_PLANS } else { "BEGIN" };
        let mut tx = self.pool.begin_with(begin).await?;
        let Some(row) = insert_broadcast(&mut tx, new, state).await? else { return Ok(None) };
        insert_audience(&mut tx, row.id, &new.audience).await?;
        let mut counts = Counts::default();
        if at_once {
            for place in self.places(&mut tx, row.id).await? {
                let page = Page::of_small_audience(row.id, row.audience, place, new.priority);
                counts.total += page.insert(&mut tx).await?.deliveries;
            }
        }
        tx.commit().await?;
        if at_once && counts.total == 0 {
            // Nobody of the list has a device: nothing is left to do.
            self.complete(&[row.id]).await?;
            return self.broadcast(row.id).await;
        }
        Ok(Some(row.with_counts(counts)))
    }

    /// Where the devices of a list that has one row may be.
    async fn places(&self, tx: &mut PgConnection, id: BroadcastId) -> Result<Vec<(ProviderId, Shard)>> {
        let providers = sqlx::query!(
            r#"SELECT id AS "id: ProviderId", (SELECT shards FROM settings) AS "shards!" FROM provider ORDER BY id"#
        )
        .fetch_all(&mut *tx)
        .await?;
        let Some(shards) = providers.first().map(|row| Shards(row.shards)) else { return Ok(vec![]) };
        self.known_shards.note(shards);
        if shards == Shards(1) {
            return Ok(providers.into_iter().map(|row| (row.id, 0)).collect());
        }
        // Looked up first: most lists are of one user, and most places have none of it.
        let places = sqlx::query_file!("queries/broadcast_audience_places.sql", id.0, &shards.list())
            .fetch_all(tx)
            .await?;
        Ok(places.into_iter().map(|row| (row.provider, row.shard)).collect())
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

async fn insert_broadcast(
    tx: &mut PgConnection,
    new: &NewBroadcast,
    state: BroadcastState,
) -> Result<Option<BroadcastRow>> {
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
        state as _,
        least.as_secs_f64(),
        most.as_secs_f64(),
        new.guarantee as _,
    )
    .fetch_optional(tx)
    .await?)
}

async fn insert_audience(tx: &mut PgConnection, id: BroadcastId, audience: &Audience) -> Result<()> {
    let (users, devices): (&[String], Vec<i64>) = match audience {
        Audience::Users(users) => (users, vec![]),
        Audience::Devices(devices) => (&[], devices.iter().map(|DeviceId(id)| *id).collect()),
        Audience::Everyone | Audience::Topics(_) => (&[], vec![]),
    };
    sqlx::query_file!("queries/broadcast_audience_insert.sql", id.0, users, &devices, AUDIENCE_ROW_IDS)
        .execute(tx)
        .await?;
    Ok(())
}
