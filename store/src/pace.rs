//! How often a provider is called: senders share its rate by reserving slots here, moments to call at.

use std::time::Duration;

use crate::connect::{Lane, Store, bounded};
use crate::error::Result;
use crate::ids::ProviderId;

/// Of a rate, this share is given away: calls reach the provider a little sooner or later than they should, and what lay
/// further apart when it was sent must not exceed the rate when it arrives.
pub const PACED_SHARE: f64 = 0.975;
/// Slots are given away this far ahead at most: what is reserved by a sender that dies is not used.
pub const PACED_AHEAD: Duration = Duration::from_millis(200);
/// Where nothing is given away yet, the first slot comes after the time that the answer may take.
const ANSWER_TAKES: Duration = Duration::from_millis(5);

/// A connection of its own for reservations, so that none waits behind a claim or a flush.
#[derive(Debug)]
pub struct PaceLane {
    lane: Lane,
}

/// Slots for calls, a step apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reserved {
    /// The provider's rate now; `None` where it has none any more, and may be called at will.
    pub per_second: Option<u32>,
    /// How many; none while enough is given away already.
    pub slots: u32,
    /// The database's clock when it gave them away, in seconds since 1970.
    pub at: f64,
    /// From then to the first of them.
    pub begins_in: Duration,
}

impl Reserved {
    /// From one slot to the next.
    pub fn step(&self) -> Duration {
        self.per_second
            .map_or(Duration::ZERO, |rate| Duration::from_secs_f64(1.0 / (f64::from(rate) * PACED_SHARE)))
    }
}

impl Store {
    /// Sets how often a provider may be called within a second by all senders together; `None`: as often as they can. Returns
    /// what held before where it was something else.
    pub async fn pace_provider(
        &self,
        id: ProviderId,
        per_second: Option<u32>,
    ) -> Result<Option<Option<u32>>> {
        let rate = per_second.map(|rate| i32::try_from(rate).unwrap_or(i32::MAX));
        bounded("pace", async {
            sqlx::query!(
                "INSERT INTO provider_pace (provider_id) VALUES ($1) ON CONFLICT (provider_id) DO NOTHING",
                id.0
            )
            .execute(&self.pool)
            .await?;
            let before =
                sqlx::query_file!("queries/provider_pace.sql", id.0, rate).fetch_optional(&self.pool).await?;
            Ok(before.map(|before| positive(before.rate_per_second)))
        })
        .await
    }

    pub fn pace_lane(&self) -> PaceLane {
        PaceLane { lane: self.fleeting_lane() }
    }
}

impl PaceLane {
    /// Reserves up to so many slots of a provider. After an error some may be reserved all the same, and are not used.
    pub async fn reserve(&mut self, id: ProviderId, slots: u32) -> Result<Reserved> {
        let slots = i32::try_from(slots).unwrap_or(i32::MAX);
        self.lane
            .run("reservation", async |connection| {
                let row = sqlx::query_file!(
                    "queries/provider_reserve.sql",
                    id.0,
                    slots,
                    PACED_SHARE,
                    PACED_AHEAD.as_secs_f64(),
                    ANSWER_TAKES.as_secs_f64()
                )
                .fetch_optional(connection)
                .await?;
                // Without a row there is no limit.
                Ok(row.map_or(
                    Reserved { per_second: None, slots: 0, at: 0.0, begins_in: Duration::ZERO },
                    |row| Reserved {
                        per_second: positive(row.rate_per_second),
                        slots: row.slots.and_then(|slots| u32::try_from(slots).ok()).unwrap_or(0),
                        at: row.at,
                        begins_in: Duration::from_secs_f64(row.begins_in.max(0.0)),
                    },
                ))
            })
            .await
    }

    /// Says goodbye to the server.
    pub async fn close(&mut self) {
        self.lane.close().await;
    }
}

pub(crate) fn positive(rate: Option<i32>) -> Option<u32> {
    rate.and_then(|rate| u32::try_from(rate).ok())
}
