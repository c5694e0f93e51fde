//! What a replay would take up, counted before it is asked for.

use std::time::{Duration, Instant};

use crate::connect::{Store, bounded};
use crate::error::Result;
use crate::ids::{BroadcastId, DeviceId, ProviderId, Shard};
use crate::replay::{DeadLetterMatch, NewReplay, ReplayLetters};

/// Dead letters that a count looks at.
pub const MAX_REPLAY_COUNTED: i64 = 1_000_000;
/// It begins no statement later than this: a caller waits for the answer.
const COUNTING_TAKES: Duration = Duration::from_secs(5);
/// Of these, in one statement.
const COUNTED_AT_A_TIME: i64 = 10_000;

/// What a replay would take up now, and what it would leave. Each dead letter counts once, for the first of the reasons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayCount {
    pub matching: i64,
    /// By another replay, which called them or still may.
    pub taken_up: i64,
    /// Perhaps accepted, and not asked for by that reason.
    pub unconfirmed: i64,
    /// Their devices are retired or quarantined.
    pub retired: i64,
    pub without_consent: i64,
    /// Devices that were named and have no dead letter of this broadcast.
    pub unknown: i64,
    /// There are more than were looked at: [`MAX_REPLAY_COUNTED`], or what could be in the time that there is.
    pub partial: bool,
}

impl Store {
    /// How many dead letters [`Store::replay`] would take up now, and what would be left and why.
    pub async fn count_replay(&self, new: &NewReplay) -> Result<ReplayCount> {
        match &new.letters {
            ReplayLetters::Devices(_) => {
                bounded("count of a replay", self.count_named(new.broadcast, &new.letters.devices())).await
            }
            ReplayLetters::Matching(these) => self.count_matching(new.broadcast, these).await,
        }
    }

    async fn count_named(&self, broadcast: BroadcastId, devices: &[i64]) -> Result<ReplayCount> {
        let shards = self.shards().await?.list();
        let found = sqlx::query_file!("queries/replay_count_named.sql", broadcast.0, devices, &shards)
            .fetch_one(&self.pool)
            .await?;
        Ok(ReplayCount {
            matching: found.matching,
            taken_up: found.taken_up,
            unconfirmed: found.unconfirmed,
            retired: found.retired,
            without_consent: found.without_consent,
            unknown: found.unknown,
            partial: false,
        })
    }

    /// In steps, so that no statement is a long one however many there are.
    async fn count_matching(&self, broadcast: BroadcastId, these: &DeadLetterMatch) -> Result<ReplayCount> {
        let mut count = ReplayCount::default();
        let (began, mut looked_at) = (Instant::now(), 0);
        for shard in self.shards().await?.all() {
            let mut after = Some((ProviderId(0), DeviceId(0)));
            while let Some(place) = after {
                if looked_at >= MAX_REPLAY_COUNTED || began.elapsed() >= COUNTING_TAKES {
                    return Ok(ReplayCount { partial: true, ..count });
                }
                let step = self.count_step(broadcast, shard, place, these, &mut count);
                let (looked, next) = bounded("count of a replay", step).await?;
                looked_at += looked;
                after = next;
            }
        }
        Ok(count)
    }

    /// Adds the next dead letters of a shard to the count. Returns how many were looked at, and where to go on.
    async fn count_step(
        &self,
        broadcast: BroadcastId,
        shard: Shard,
        (provider, device): (ProviderId, DeviceId),
        these: &DeadLetterMatch,
        count: &mut ReplayCount,
    ) -> Result<(i64, Option<(ProviderId, DeviceId)>)> {
        let mut tx = self.begin_in_order().await?;
        let found = sqlx::query_file!(
            "queries/replay_count.sql",
            broadcast.0,
            shard,
            provider.0,
            device.0,
            COUNTED_AT_A_TIME,
            &these.reasons as _,
            these.code,
            these.provider.map(|p| p.0),
            these.from,
            these.to
        )
        .fetch_one(&mut *tx)
        .await?;
        tx.commit().await?;
        count.matching += found.matching;
        count.taken_up += found.taken_up;
        count.unconfirmed += found.unconfirmed;
        count.retired += found.retired;
        count.without_consent += found.without_consent;
        let more = found.looked_at == COUNTED_AT_A_TIME;
        Ok((found.looked_at, found.last_provider.zip(found.last_device).filter(|_| more)))
    }
}
