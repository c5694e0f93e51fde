//! What happened: status, deliveries and dead letters, as committed.

use time::OffsetDateTime;

use crate::broadcast::{BroadcastState, Routing};
use crate::connect::{Store, bounded};
use crate::counts::{LiveCounts, ProviderCounts};
use crate::delivery::{DeadReason, DeliveryState};
use crate::error::Result;
use crate::ids::{BroadcastId, DeviceId, ProviderId, Shard};

/// The progress of a broadcast at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub id: BroadcastId,
    pub state: BroadcastState,
    /// No call starts while set.
    pub paused: bool,
    /// When it is to start, or was, where that was not at once.
    pub scheduled_at: Option<OffsetDateTime>,
    /// Nothing where it does not go out live.
    pub live: Option<LiveCounts>,
    /// In order of name.
    pub providers: Vec<ProviderCounts>,
    /// The database's clock.
    pub read_at: OffsetDateTime,
}

/// Of a status, what is the broadcast's own.
struct StateRow {
    state: BroadcastState,
    paused: bool,
    scheduled_at: Option<OffsetDateTime>,
    routing: Routing,
    read_at: OffsetDateTime,
}

/// One delivery, for people.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub provider_id: ProviderId,
    pub provider: String,
    pub device: DeviceId,
    pub state: DeliveryState,
    pub attempts: i32,
    pub next_attempt_at: Option<OffsetDateTime>,
    pub last_code: Option<String>,
    pub dead_reason: Option<DeadReason>,
    pub settled_at: Option<OffsetDateTime>,
    /// `None` where the device is no longer known.
    pub user_id: Option<String>,
}

/// Which deliveries of a broadcast to list, in order of provider and device.
#[derive(Debug, Clone)]
pub struct DeliveryFilter {
    pub broadcast: BroadcastId,
    /// Empty: all.
    pub states: Vec<DeliveryState>,
    pub provider: Option<ProviderId>,
    /// The last one of the page before.
    pub after: Option<(ProviderId, DeviceId)>,
    /// Rows at most.
    pub limit: i64,
}

/// Dead letters that one page of their list looks at: some tens of milliseconds, however few match.
pub const LIST_LOOKS_AT: i64 = 20_000;

/// Where a dead letter is in the order of their list.
pub type DeadLetterPlace = (BroadcastId, Shard, ProviderId, DeviceId);

/// A delivery that will not be tried again.
#[derive(Debug, Clone)]
pub struct DeadLetter {
    pub broadcast: BroadcastId,
    pub shard: Shard,
    pub provider_id: ProviderId,
    pub provider: String,
    pub device: DeviceId,
    pub attempts: i32,
    pub reason: DeadReason,
    pub created_at: OffsetDateTime,
    pub code: String,
    pub detail: String,
    /// The replay that took the delivery up again.
    pub replayed_by: Option<BroadcastId>,
    /// `None` where the device is no longer known.
    pub user_id: Option<String>,
}

/// Which dead letters to list, newest broadcast first.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterFilter {
    pub broadcast: Option<BroadcastId>,
    /// Empty: all.
    pub reasons: Vec<DeadReason>,
    pub code: Option<String>,
    pub provider: Option<ProviderId>,
    pub from: Option<OffsetDateTime>,
    pub to: Option<OffsetDateTime>,
    /// The last one of the page before.
    pub after: Option<DeadLetterPlace>,
    /// Rows at most.
    pub limit: i64,
}

impl Store {
    /// The committed progress of a broadcast. Never counts deliveries: it sums batches, or reads the folded tallies.
    pub async fn status(&self, id: BroadcastId) -> Result<Option<Status>> {
        bounded("status", self.read_status(id)).await
    }

    async fn read_status(&self, id: BroadcastId) -> Result<Option<Status>> {
        let mut providers = self.provider_counts(&[id]).await?.remove(&id).unwrap_or_default();
        let Some(row) = self.state(id).await? else { return Ok(None) };
        if row.state.is_final() {
            // It may have become so after the counts were read; those of a final broadcast stay as they are.
            providers = self.provider_counts(&[id]).await?.remove(&id).unwrap_or_default();
        }
        let StateRow { state, paused, scheduled_at, routing, read_at } = row;
        let live = match routing.is_live() {
            true => Some(self.live_counts(&[id]).await?.remove(&id).unwrap_or_default()),
            false => None,
        };
        Ok(Some(Status { id, state, paused, scheduled_at, live, providers, read_at }))
    }

    async fn state(&self, id: BroadcastId) -> Result<Option<StateRow>> {
        Ok(sqlx::query_as!(
            StateRow,
            r#"SELECT state AS "state: BroadcastState", paused, scheduled_at,
                      routing AS "routing: Routing", now() AS "read_at!"
               FROM broadcast WHERE id = $1"#,
            id.0
        )
        .fetch_optional(&self.pool)
        .await?)
    }

    /// Whether the deliveries of this broadcast were dropped at the end of their retention. Its counts are kept.
    pub async fn deliveries_dropped(&self, id: BroadcastId) -> Result<bool> {
        let dropped =
            sqlx::query_file_scalar!("queries/delivery_dropped.sql", id.0).fetch_optional(&self.pool).await?;
        Ok(dropped.unwrap_or(false))
    }

    /// A page of dead letters: those that match of the next [`LIST_LOOKS_AT`]. Where that are fewer than the limit, there may be
    /// more behind [`Store::dead_letters_reach`].
    pub async fn list_dead_letters(&self, filter: &DeadLetterFilter) -> Result<Vec<DeadLetter>> {
        let (broadcast, shard, provider, device) = filter.place();
        let mut tx = self.begin_in_order().await?;
        let letters = sqlx::query_file_as!(
            DeadLetter,
            "queries/dead_letter_list.sql",
            shard,
            filter.broadcast.map(|b| b.0),
            &filter.reasons as _,
            filter.code,
            filter.provider.map(|p| p.0),
            filter.from,
            filter.to,
            broadcast.0,
            provider.0,
            device.0,
            filter.limit,
            LIST_LOOKS_AT
        )
        .fetch_all(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(letters)
    }

    /// How far a list with this filter looks; None: to the end.
    pub async fn dead_letters_reach(&self, filter: &DeadLetterFilter) -> Result<Option<DeadLetterPlace>> {
        let (broadcast, shard, provider, device) = filter.place();
        let mut tx = self.begin_in_order().await?;
        let last = sqlx::query_file!(
            "queries/dead_letter_reach.sql",
            shard,
            filter.broadcast.map(|b| b.0),
            broadcast.0,
            provider.0,
            device.0,
            LIST_LOOKS_AT,
            filter.to
        )
        .fetch_optional(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(last.map(|last| (last.broadcast, last.shard, last.provider, last.device)))
    }
}

impl DeadLetterFilter {
    /// What a page begins after.
    fn place(&self) -> DeadLetterPlace {
        let newest = (BroadcastId(i64::MAX), Shard::MAX, ProviderId(i16::MAX), DeviceId(i64::MAX));
        self.after.unwrap_or(newest)
    }
}
