//! Staying alive in the eyes of others: heartbeat, renewal, flags, and taking over from senders that died.

use std::time::Duration;

use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::claim::LeasedBatch;
use crate::connect::{Lane, Store};
use crate::error::Result;
use crate::ids::{BatchId, BroadcastId, ProviderId, SenderId};
use crate::pace::positive;
use crate::sender::VERSION;
use crate::shards::{Shards, by_shard};

/// A connection of its own for what must not wait behind claims and flushes. While it is open, the session advisory lock
/// that it holds says that this sender lives.
#[derive(Debug)]
pub struct ControlLane {
    lane: Lane,
    sender: SenderId,
    store: Store,
    locked: bool,
    /// What it says it serves.
    providers: Vec<i16>,
}

/// Why no call of a broadcast may start.
#[derive(Debug, Clone, Copy)]
pub struct Flags {
    pub id: BroadcastId,
    pub paused: bool,
    pub cancelled: bool,
}

/// What all senders heed of a provider.
#[derive(Debug, Clone, Copy)]
pub struct Signals {
    pub id: ProviderId,
    /// Nobody calls it but for a probe.
    pub parked: bool,
    /// It is parked because it called so many tokens gone that it is not believed.
    pub doubted: bool,
    /// The next probe may be taken.
    pub probe_due: bool,
    /// It asked to be left alone for this long from now.
    pub held: Duration,
    /// How long ago it was found to work again; `None` where it never was parked.
    pub resumed_ago: Option<Duration>,
    /// Calls within a second at most, of all senders together.
    pub per_second: Option<u32>,
}

/// An answered heartbeat.
#[derive(Debug, Clone)]
pub struct Beat {
    /// By the database's clock. What others held is taken only while this is recent by that clock, too.
    pub at: OffsetDateTime,
    /// The providers whose virtual time is as great as told; a provider's row may be held by somebody.
    pub known: Vec<ProviderId>,
}

impl Store {
    pub fn control_lane(&self, sender: SenderId) -> ControlLane {
        ControlLane { lane: self.lane(), sender, store: self.clone(), locked: false, providers: vec![] }
    }
}

impl ControlLane {
    /// What this sender can call, as its heartbeats are to tell.
    pub fn serve(&mut self, providers: impl Iterator<Item = ProviderId>) {
        self.providers = providers.map(|provider| provider.0).collect();
    }

    /// Says that this sender lives, and how far the fair queue of each provider has come.
    pub async fn heartbeat(&mut self, in_flight: usize, vtimes: &[(ProviderId, i64)]) -> Result<Beat> {
        let (id, key) = (self.sender.0, self.sender.lock_key());
        let in_flight = i32::try_from(in_flight).unwrap_or(i32::MAX);
        let providers: Vec<i16> = vtimes.iter().map(|(p, _)| p.0).collect();
        let ranks: Vec<i64> = vtimes.iter().map(|(_, v)| *v).collect();
        self.notice_loss();
        let locked = self.locked;
        let serves = (!self.providers.is_empty()).then_some(&*self.providers);
        let (locked, beat) = self
            .lane
            .run("heartbeat", async |connection| {
                // Not waited for: after a lost connection the server may still keep the lock for our old session.
                let locked = locked
                    || sqlx::query_scalar!(r#"SELECT pg_try_advisory_lock($1) AS "locked!""#, key)
                        .fetch_one(&mut *connection)
                        .await?;
                let at = sqlx::query_file_scalar!(
                    "queries/sender_heartbeat.sql",
                    id,
                    key,
                    in_flight,
                    serves,
                    VERSION
                )
                .fetch_one(&mut *connection)
                .await?;
                if providers.is_empty() {
                    return Ok((locked, Beat { at, known: vec![] }));
                }
                let known = sqlx::query_file_scalar!("queries/provider_advance.sql", &providers, &ranks)
                    .fetch_all(connection)
                    .await?;
                Ok((locked, Beat { at, known }))
            })
            .await?;
        self.locked = locked;
        Ok(beat)
    }

    /// Extends these leases by `lease` from now. Returns the batches that are still this sender's; the others are lost.
    pub async fn renew(&mut self, batches: &[LeasedBatch], lease: Duration) -> Result<Vec<BatchId>> {
        self.notice_loss();
        let owner = self.sender.0;
        let batches = by_shard(batches, |batch| batch.shard);
        self.lane
            .run("renewal", async |connection| {
                let mut kept = vec![];
                for (shard, batches) in batches {
                    let ids: Vec<i64> = batches.iter().map(|b| b.id.0).collect();
                    let epochs: Vec<i64> = batches.iter().map(|b| b.epoch).collect();
                    let of_shard = sqlx::query_file_scalar!(
                        "queries/lease_renew.sql",
                        shard,
                        owner,
                        &ids,
                        &epochs,
                        lease.as_secs_f64()
                    );
                    kept.extend(of_shard.fetch_all(&mut *connection).await?);
                }
                Ok(kept)
            })
            .await
    }

    /// Which of these broadcasts have been paused or cancelled.
    pub async fn flags(&mut self, broadcasts: &[BroadcastId]) -> Result<Vec<Flags>> {
        self.notice_loss();
        let ids: Vec<i64> = broadcasts.iter().map(|b| b.0).collect();
        self.lane
            .run("flags", async |connection| {
                Ok(sqlx::query_file_as!(Flags, "queries/broadcast_flags.sql", &ids)
                    .fetch_all(connection)
                    .await?)
            })
            .await
    }

    /// What all senders heed of these providers.
    pub async fn signals(&mut self, providers: &[ProviderId]) -> Result<Vec<Signals>> {
        self.notice_loss();
        let ids: Vec<i16> = providers.iter().map(|p| p.0).collect();
        self.lane
            .run("signals", async |connection| {
                let rows =
                    sqlx::query_file!("queries/provider_signals.sql", &ids).fetch_all(connection).await?;
                let seconds = |s: f64| Duration::from_secs_f64(s.max(0.0));
                Ok(rows
                    .into_iter()
                    .map(|r| Signals {
                        id: r.id,
                        parked: r.parked,
                        doubted: r.doubted,
                        probe_due: r.probe_due,
                        held: r.held_seconds.map_or(Duration::ZERO, seconds),
                        resumed_ago: r.resumed_seconds_ago.map(seconds),
                        per_second: positive(r.rate_per_second),
                    })
                    .collect())
            })
            .await
    }

    /// Ends the leases of senders that are known to be dead and were silent for `silence`; `beat` is our own last heartbeat.
    /// Returns how many batches became free to claim.
    pub async fn revoke_dead(&mut self, silence: Duration, beat: OffsetDateTime) -> Result<usize> {
        self.notice_loss();
        let (id, shards) = (self.sender.0, self.store.shards().await?);
        self.lane
            .run("look for dead senders", async |connection| {
                let silence = silence.as_secs_f64();
                let mut revoked = 0;
                for shard in shards.all() {
                    let of_shard =
                        sqlx::query_file!("queries/sender_revoke_dead.sql", shard, id, silence, beat);
                    revoked += of_shard.fetch_all(&mut *connection).await?.len();
                }
                Ok(revoked)
            })
            .await
    }

    /// The lock went with the session that held it: whoever opens the next one does not have it.
    fn notice_loss(&mut self) {
        self.locked &= self.lane.is_open();
    }

    /// Gives back everything that this sender still holds, and takes it off the list. Returns how many batches went back.
    pub async fn release(&mut self) -> Result<u64> {
        let (sender, shards) = (self.sender, self.store.shards().await?);
        self.lane
            .run("release", async |connection| {
                let released = release(connection, shards, sender, &[]).await?;
                sqlx::query!("DELETE FROM sender WHERE id = $1", sender.0).execute(connection).await?;
                Ok(released)
            })
            .await
    }

    /// Says goodbye to the server, and so gives up the lock.
    pub async fn close(&mut self) {
        self.lane.close().await;
    }
}

/// Gives back what is leased to `sender` beside `keep`. Returns how many batches went back.
pub(crate) async fn release(
    connection: &mut PgConnection,
    shards: Shards,
    sender: SenderId,
    keep: &[LeasedBatch],
) -> Result<u64> {
    let ids: Vec<i64> = keep.iter().map(|b| b.id.0).collect();
    let epochs: Vec<i64> = keep.iter().map(|b| b.epoch).collect();
    let mut released = 0;
    for shard in shards.all() {
        let done = sqlx::query_file!("queries/lease_release.sql", shard, sender.0, &ids, &epochs)
            .execute(&mut *connection)
            .await?;
        released += done.rows_affected();
    }
    Ok(released)
}
