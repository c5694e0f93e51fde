//! Replaying dead letters: a broadcast of its own to those of another one, with the same message.
//!
//! Its idempotency key is the replay's id, so that asking twice replays once; each page of its fan-out marks the dead
//! letters that it takes up, so that two replays never share one.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::types::Json;

use crate::broadcast::{Acceptance, AudienceKind, BroadcastState, Guarantee, Priority};
use crate::broadcast_read::BroadcastRow;
use crate::connect::Store;
use crate::counts::Counts;
use crate::delivery::DeadReason;
use crate::error::Result;
use crate::ids::{BroadcastId, ProviderId};

/// A valid request to replay dead letters.
#[derive(Debug, Clone)]
pub struct NewReplay {
    /// Whose idempotency keys these are.
    pub client_id: String,
    pub replay_id: String,
    pub broadcast: BroadcastId,
    /// Empty: all but [`DeadReason::Unconfirmed`].
    pub reasons: Vec<DeadReason>,
    pub code: Option<String>,
    pub provider: Option<ProviderId>,
    /// Until when it is worth sending.
    pub ttl: Duration,
    /// Calls within any second at most; `None`: as many as can be made.
    pub max_rate_per_second: Option<u32>,
}

impl NewReplay {
    /// Same content, same bytes: what the column keeps that holds a hash for other broadcasts.
    fn fingerprint(&self) -> Vec<u8> {
        let mut reasons: Vec<_> = self.reasons.iter().map(|reason| format!("{reason:?}")).collect();
        reasons.sort_unstable();
        reasons.dedup();
        let (of, code, provider) = (self.broadcast, &self.code, self.provider.map(|p| p.0));
        // Younger than the form: left out where it is not given, so that older replays keep theirs.
        let rate =
            self.max_rate_per_second.map(|rate| format!(" at most {rate} a second")).unwrap_or_default();
        format!("replay/1 {of} {} {code:?} {provider:?} {:?}{rate}", reasons.join(","), self.ttl).into_bytes()
    }
}

/// What became of a request to replay.
#[must_use]
#[derive(Debug)]
pub enum Replay {
    /// As for any other broadcast.
    Accepted(Acceptance),
    /// There is no broadcast to replay.
    NotFound,
}

impl Store {
    /// Stores a replay, or finds the one that its id stands for.
    pub async fn replay(&self, new: &NewReplay) -> Result<Replay> {
        if let Some(found) = self.existing(&new.client_id, &new.replay_id, &new.fingerprint()).await? {
            return Ok(Replay::Accepted(found));
        }
        self.ensure_partitions().await?;
        let inserted = sqlx::query_file_as!(
            BroadcastRow,
            "queries/replay_insert.sql",
            new.client_id,
            new.replay_id,
            new.broadcast.0,
            new.fingerprint(),
            new.ttl.as_secs_f64(),
            &new.reasons as _,
            new.code,
            new.provider.map(|p| p.0),
            new.max_rate_per_second.and_then(|rate| i32::try_from(rate).ok())
        )
        .fetch_optional(&self.pool)
        .await?;
        if let Some(row) = inserted {
            return Ok(Replay::Accepted(Acceptance::New(Box::new(row.with_counts(Counts::default())))));
        }
        // Somebody was faster, or there is nothing to replay.
        let found = self.existing(&new.client_id, &new.replay_id, &new.fingerprint()).await?;
        Ok(found.map_or(Replay::NotFound, Replay::Accepted))
    }

    /// How many dead letters [`Store::replay`] would take up now.
    pub async fn count_replay(&self, new: &NewReplay) -> Result<i64> {
        let shards = self.shards().await?.list();
        Ok(sqlx::query_file_scalar!(
            "queries/replay_count.sql",
            new.broadcast.0,
            &shards,
            &new.reasons as _,
            new.code,
            new.provider.map(|p| p.0)
        )
        .fetch_one(&self.pool)
        .await?)
    }
}
