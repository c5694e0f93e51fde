//! Broadcasts that start later: any process starts those whose time has come, so that one that was down loses nothing.

use time::OffsetDateTime;

use crate::broadcast::{Broadcast, EXPIRY_RANGE, MOST_AHEAD};
use crate::connect::{Store, bounded};
use crate::error::{Result, StoreError};
use crate::ids::BroadcastId;

/// Broadcasts started in one statement.
const STEP_STARTS: i64 = 100;

/// A scheduled broadcast whose time had come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Started {
    pub id: BroadcastId,
    /// It was too late: it is final, with no delivery.
    pub expired: bool,
    /// How long after its time.
    pub late_seconds: f64,
}

/// What became of a request to start at another time.
#[must_use]
#[derive(Debug)]
pub enum Rescheduled {
    /// It starts then; or it is `accepted`, where that was now.
    Done(Box<Broadcast>),
    /// It has started, or ended.
    NotScheduled(Box<Broadcast>),
    /// Further ahead than [`MOST_AHEAD`], by the database's clock.
    TooFarAhead {
        now: OffsetDateTime,
    },
    /// Its expiry is a moment, and not within [`EXPIRY_RANGE`] of that start.
    ExpiryOutOfRange {
        start: OffsetDateTime,
        expires_at: OffsetDateTime,
    },
    NotFound,
}

impl Store {
    /// Starts scheduled broadcasts whose time has come, or ends those that have expired by then. Any number of processes may
    /// call it at the same time: each broadcast starts once. There may be more where the answer is not empty.
    pub async fn start_due(&self) -> Result<Vec<Started>> {
        bounded("start", async {
            Ok(sqlx::query_file_as!(Started, "queries/broadcast_start.sql", STEP_STARTS)
                .fetch_all(&self.pool)
                .await?)
        })
        .await
    }

    /// Has a scheduled broadcast start at another time; at once where it is none or past. What expires so long after its start
    /// expires later or earlier by as much.
    pub async fn reschedule_broadcast(
        &self,
        id: BroadcastId,
        at: Option<OffsetDateTime>,
    ) -> Result<Rescheduled> {
        let (least, most) = EXPIRY_RANGE;
        let found = sqlx::query_file!(
            "queries/broadcast_reschedule.sql",
            id.0,
            at,
            MOST_AHEAD.as_secs_f64(),
            least.as_secs_f64(),
            most.as_secs_f64()
        )
        .fetch_optional(&self.pool)
        .await?;
        let (Some(found), Some(broadcast)) = (found, self.broadcast(id).await?) else {
            return Ok(Rescheduled::NotFound);
        };
        if found.moved {
            return Ok(Rescheduled::Done(Box::new(broadcast)));
        }
        if !found.scheduled {
            return Ok(Rescheduled::NotScheduled(Box::new(broadcast)));
        }
        if !found.soon_enough {
            return Ok(Rescheduled::TooFarAhead { now: found.now });
        }
        if !found.in_time {
            let (start, expires_at) = (found.starts_at, found.expires_at);
            return Ok(Rescheduled::ExpiryOutOfRange { start, expires_at });
        }
        // Its row was in other hands between being judged and being moved.
        Err(StoreError::Unavailable(format!("broadcast {id} changed while it was rescheduled")))
    }
}
