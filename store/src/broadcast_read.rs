//! Reading, listing and completing broadcasts.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use sqlx::types::Json;
use time::OffsetDateTime;

use crate::broadcast::*;
use crate::connect::{Store, bounded};
use crate::counts::{Counts, LiveCounts, Parked, ProviderCounts};
use crate::error::Result;
use crate::ids::{BroadcastId, ProviderId};
use crate::pace::positive;

impl Store {
    /// One broadcast with its counts.
    pub async fn broadcast(&self, id: BroadcastId) -> Result<Option<Broadcast>> {
        let row = sqlx::query_file_as!(BroadcastRow, "queries/broadcast_get.sql", id.0)
            .fetch_optional(&self.pool)
            .await?;
        match row {
            Some(row) => Ok(Some(self.with_counts(row).await?)),
            None => Ok(None),
        }
    }

    /// Whether there is such a broadcast, and it is this client's: the two are not told apart.
    pub async fn broadcast_is_of(&self, id: BroadcastId, client_id: &str) -> Result<bool> {
        let owner =
            sqlx::query_file_scalar!("queries/broadcast_client.sql", id.0).fetch_optional(&self.pool).await?;
        Ok(owner.is_some_and(|owner| owner == client_id))
    }

    pub(crate) async fn with_counts(&self, row: BroadcastRow) -> Result<Broadcast> {
        let counts = self.provider_counts(&[row.id]).await?.remove(&row.id).unwrap_or_default();
        let live = if row.routing.is_live() { self.live_counts(&[row.id]).await? } else { HashMap::new() };
        let live = live.get(&row.id).copied().unwrap_or_default();
        Ok(row.with_counts(counts.into_iter().map(|c| c.counts).sum(), live))
    }

    /// Broadcasts, newest first.
    pub async fn list_broadcasts(&self, filter: &BroadcastFilter) -> Result<Vec<Broadcast>> {
        let rows = sqlx::query_file_as!(
            BroadcastRow,
            "queries/broadcast_list.sql",
            filter.before.map_or(i64::MAX, |id| id.0),
            &filter.states as _,
            filter.limit,
            filter.client_id.as_deref()
        )
        .fetch_all(&self.pool)
        .await?;
        let ids: Vec<_> = rows.iter().map(|r| r.id).collect();
        let mut counts = self.provider_counts(&ids).await?;
        let live: Vec<_> = rows.iter().filter(|r| r.routing.is_live()).map(|r| r.id).collect();
        let live = if live.is_empty() { HashMap::new() } else { self.live_counts(&live).await? };
        Ok(rows
            .into_iter()
            .map(|row| {
                let counts = counts.remove(&row.id).unwrap_or_default();
                let live = live.get(&row.id).copied().unwrap_or_default();
                row.with_counts(counts.into_iter().map(|c| c.counts).sum(), live)
            })
            .collect())
    }

    /// Counts by provider of each of `ids`; a broadcast without deliveries has no entry.
    pub(crate) async fn provider_counts(
        &self,
        ids: &[BroadcastId],
    ) -> Result<HashMap<BroadcastId, Vec<ProviderCounts>>> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let rows = sqlx::query_file!("queries/broadcast_counts.sql", &ids).fetch_all(&self.pool).await?;
        let mut by_broadcast: HashMap<_, Vec<_>> = HashMap::new();
        for r in rows {
            let counts = Counts {
                total: r.total,
                sent: r.sent,
                dead_attempts_exhausted: r.dead_attempts_exhausted,
                dead_unregistered: r.dead_unregistered,
                dead_rejected: r.dead_rejected,
                expired: r.expired,
                skipped: r.skipped,
                cancelled: r.cancelled,
                unconfirmed: r.unconfirmed,
                retried: r.retried,
                retrying: r.retrying,
            };
            by_broadcast.entry(r.broadcast_id).or_default().push(ProviderCounts {
                provider_id: r.provider_id,
                provider: r.provider,
                held_until: r.held_until,
                parked: r.parked_since.zip(r.parked_code).map(|(since, code)| Parked { since, code }),
                counts,
            });
        }
        Ok(by_broadcast)
    }

    /// Ends those of `ids` that have nothing left to do, and returns them.
    pub(crate) async fn complete(&self, ids: &[BroadcastId]) -> Result<Vec<BroadcastId>> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        bounded("completion", async {
            Ok(sqlx::query_file_scalar!("queries/broadcast_complete.sql", &ids).fetch_all(&self.pool).await?)
        })
        .await
    }
}

/// A row of broadcast, as all statements that read it return it.
pub(crate) struct BroadcastRow {
    pub id: BroadcastId,
    pub idempotency_key: String,
    pub title: String,
    pub body: String,
    pub data: Json<BTreeMap<String, String>>,
    pub priority: Priority,
    pub audience: AudienceKind,
    pub topics: Vec<String>,
    pub listed: i32,
    pub state: BroadcastState,
    pub paused: bool,
    pub max_rate_per_second: Option<i32>,
    pub routing: Routing,
    pub ack_seconds: Option<f64>,
    pub guarantee: Guarantee,
    pub replay_of: Option<BroadcastId>,
    pub created_at: OffsetDateTime,
    pub expires_at: OffsetDateTime,
    pub scheduled_at: Option<OffsetDateTime>,
    pub settled_at: Option<OffsetDateTime>,
    pub request_hash: Vec<u8>,
}

impl BroadcastRow {
    pub fn with_counts(self, counts: Counts, live: LiveCounts) -> Broadcast {
        Broadcast {
            id: self.id,
            idempotency_key: self.idempotency_key,
            message: Message { title: self.title, body: self.body, data: self.data.0 },
            audience: match self.audience {
                AudienceKind::Everyone => AudienceSummary::Everyone,
                AudienceKind::Topics => AudienceSummary::Topics(self.topics),
                AudienceKind::Users => AudienceSummary::Users(self.listed.into()),
                AudienceKind::Devices => AudienceSummary::Devices(self.listed.into()),
                // The database checks that a replay says of what.
                AudienceKind::DeadLetters => AudienceSummary::DeadLetters(self.replay_of.unwrap_or(self.id)),
            },
            priority: self.priority,
            guarantee: self.guarantee,
            state: self.state,
            paused: self.paused,
            max_rate_per_second: positive(self.max_rate_per_second),
            routing: self.routing,
            ack_timeout: self.ack_seconds.map(Duration::from_secs_f64),
            created_at: self.created_at,
            expires_at: self.expires_at,
            scheduled_at: self.scheduled_at,
            settled_at: self.settled_at,
            counts,
            live,
            told: vec![],
        }
    }
}
