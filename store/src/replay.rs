//! Replaying dead letters: a broadcast of its own to those of another one, with the same message.
//!
//! Its idempotency key is the replay's id, so that asking twice replays once; each page of its fan-out marks the dead
//! letters that it takes up, so that two replays never share one.

use std::collections::BTreeMap;
use std::time::Duration;

use sha2::{Digest, Sha256};
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::accept::AUDIENCE_ROW_IDS;
use crate::broadcast::{Acceptance, AudienceKind, BroadcastState, Guarantee, Priority, Routing};
use crate::broadcast_read::BroadcastRow;
use crate::connect::Store;
use crate::counts::{Counts, LiveCounts};
use crate::delivery::DeadReason;
use crate::error::Result;
use crate::ids::{BroadcastId, DeviceId, ProviderId};

/// Devices that one replay may name.
pub const MAX_REPLAY_DEVICES: usize = 10_000;

/// A valid request to replay dead letters.
#[derive(Debug, Clone)]
pub struct NewReplay {
    /// Whose idempotency keys these are.
    pub client_id: String,
    pub replay_id: String,
    pub broadcast: BroadcastId,
    pub letters: ReplayLetters,
    /// Until when it is worth sending.
    pub ttl: Duration,
    /// Calls within a second at most, by all senders together; None: no limit but the provider's.
    pub max_rate_per_second: Option<u32>,
}

/// Which dead letters of a broadcast.
#[derive(Debug, Clone)]
pub enum ReplayLetters {
    /// No reasons: all but [`DeadReason::Unconfirmed`].
    Matching(DeadLetterMatch),
    /// Those of these devices, but for [`DeadReason::Unconfirmed`]: sorted, distinct, at least one, at most
    /// [`MAX_REPLAY_DEVICES`].
    Devices(Vec<DeviceId>),
}

/// Conditions of which a dead letter meets all; what is not said is none.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterMatch {
    pub reasons: Vec<DeadReason>,
    pub code: Option<String>,
    pub provider: Option<ProviderId>,
    /// Died not before …
    pub from: Option<OffsetDateTime>,
    /// … and before.
    pub to: Option<OffsetDateTime>,
}

impl ReplayLetters {
    pub(crate) fn matching(&self) -> DeadLetterMatch {
        match self {
            Self::Matching(these) => these.clone(),
            Self::Devices(_) => DeadLetterMatch::default(),
        }
    }

    pub(crate) fn devices(&self) -> Vec<i64> {
        match self {
            Self::Matching(_) => vec![],
            Self::Devices(devices) => devices.iter().map(|DeviceId(id)| *id).collect(),
        }
    }
}

impl NewReplay {
    /// Same content, same bytes: what the column keeps that holds a hash for other broadcasts. A replay that says nothing that
    /// the first version did not know has the bytes of the first version, which stored replays have.
    fn fingerprint(&self) -> Vec<u8> {
        let these = self.letters.matching();
        let mut reasons: Vec<_> = these.reasons.iter().map(|reason| format!("{reason:?}")).collect();
        reasons.sort_unstable();
        reasons.dedup();
        let reasons = reasons.join(",");
        let (of, code, provider, ttl) = (self.broadcast, &these.code, these.provider.map(|p| p.0), self.ttl);
        let devices = self.letters.devices();
        let rate = self.max_rate_per_second;
        if devices.is_empty() && these.from.is_none() && these.to.is_none() && rate.is_none() {
            return format!("replay/1 {of} {reasons} {code:?} {provider:?} {ttl:?}").into_bytes();
        }
        let nanos = |moment: Option<OffsetDateTime>| moment.map(OffsetDateTime::unix_timestamp_nanos);
        let mut list = Sha256::new();
        devices.iter().for_each(|id| list.update(id.to_be_bytes()));
        let list = list.finalize();
        let (from, to) = (nanos(these.from), nanos(these.to));
        format!("replay/2 {of} {reasons} {code:?} {provider:?} {ttl:?} {from:?} {to:?} {list:x} {rate:?}")
            .into_bytes()
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
        if let Some(row) = self.insert_replay(new).await? {
            return Ok(Replay::Accepted(Acceptance::New(Box::new(
                row.with_counts(Counts::default(), LiveCounts::default()),
            ))));
        }
        // Somebody was faster, or there is nothing to replay.
        let found = self.existing(&new.client_id, &new.replay_id, &new.fingerprint()).await?;
        Ok(found.map_or(Replay::NotFound, Replay::Accepted))
    }

    /// None where the id stands for something already, or there is nothing to replay.
    async fn insert_replay(&self, new: &NewReplay) -> Result<Option<BroadcastRow>> {
        let (these, devices) = (new.letters.matching(), new.letters.devices());
        let mut tx = self.pool.begin().await?;
        let inserted = sqlx::query_file_as!(
            BroadcastRow,
            "queries/replay_insert.sql",
            new.client_id,
            new.replay_id,
            new.broadcast.0,
            new.fingerprint(),
            new.ttl.as_secs_f64(),
            &these.reasons as _,
            these.code,
            these.provider.map(|p| p.0),
            these.from,
            these.to,
            i32::try_from(devices.len()).unwrap_or(i32::MAX),
            new.max_rate_per_second.map(|rate| i32::try_from(rate).unwrap_or(i32::MAX))
        )
        .fetch_optional(&mut *tx)
        .await?;
        if let Some(row) = &inserted
            && !devices.is_empty()
        {
            let nobody: &[String] = &[];
            sqlx::query_file!(
                "queries/broadcast_audience_insert.sql",
                row.id.0,
                nobody,
                &devices,
                AUDIENCE_ROW_IDS
            )
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(inserted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(letters: ReplayLetters) -> Vec<u8> {
        capped(letters, None)
    }

    fn capped(letters: ReplayLetters, max_rate_per_second: Option<u32>) -> Vec<u8> {
        let ttl = Duration::from_secs(60);
        let (client_id, replay_id) = (String::new(), String::new());
        let broadcast = BroadcastId(7);
        NewReplay { client_id, replay_id, broadcast, letters, ttl, max_rate_per_second }.fingerprint()
    }

    #[test]
    fn a_replay_stored_by_the_first_version_still_stands_for_the_same_request() {
        let reasons = vec![DeadReason::Rejected, DeadReason::AttemptsExhausted, DeadReason::Rejected];
        let (code, provider) = (Some("503".to_owned()), Some(ProviderId(2)));
        let these = DeadLetterMatch { reasons, code, provider, ..Default::default() };
        let expected = "replay/1 7 AttemptsExhausted,Rejected Some(\"503\") Some(2) 60s";
        assert_eq!(replay(ReplayLetters::Matching(these)), expected.as_bytes());
    }

    #[test]
    fn every_condition_and_every_list_makes_another_request() {
        let moment = Some(OffsetDateTime::UNIX_EPOCH);
        let requests = [
            ReplayLetters::Matching(DeadLetterMatch::default()),
            ReplayLetters::Matching(DeadLetterMatch { from: moment, ..Default::default() }),
            ReplayLetters::Matching(DeadLetterMatch { to: moment, ..Default::default() }),
            ReplayLetters::Devices(vec![DeviceId(1)]),
            ReplayLetters::Devices(vec![DeviceId(1), DeviceId(2)]),
        ];
        let mut distinct: std::collections::BTreeSet<_> = requests.into_iter().map(replay).collect();
        distinct.insert(capped(ReplayLetters::Matching(DeadLetterMatch::default()), Some(5)));
        assert_eq!(distinct.len(), 6);
    }
}
