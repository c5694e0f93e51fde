//! Claiming batches. What is left to do in them is read after: [`crate::due`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sqlx::types::Json;
use time::OffsetDateTime;

use crate::broadcast::{Message, Priority};
use crate::claim_turns::{Turns, Want};
use crate::connect::{Lane, Store};
use crate::error::Result;
use crate::ids::{BatchId, BroadcastId, ProviderId, SenderId, Shard};
use crate::lease::release;
use crate::pace::positive;

/// When leases that ran out may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reclaim {
    /// Not before Postgres has been up for so long.
    pub up: Duration,
    /// Our last heartbeat, by the database's clock: see [`crate::Beat`].
    pub heartbeat_at: OffsetDateTime,
}

/// A batch in this sender's hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeasedBatch {
    pub id: BatchId,
    pub shard: Shard,
    /// With the owner, the fence behind which outcomes count.
    pub epoch: i64,
    pub broadcast: BroadcastId,
    pub provider: ProviderId,
    /// The number of the call it makes, from 1.
    pub attempt: i32,
    /// Earlier calls that failed and count against the limit of attempts.
    pub failures: i32,
    pub rank: i64,
    /// Deliveries when it was cut; fewer may be left.
    pub size: i32,
    /// How often its lease ran out in somebody's hands.
    pub reclaims: i32,
    /// Whether it is all there is between two devices in the deliveries of its broadcast; else it lists its devices.
    pub ranged: bool,
}

impl LeasedBatch {
    /// Whether one of its deliveries may be what ends whoever holds it: then each gets a batch of its own
    /// ([`crate::Verdict::Alone`]), so that it takes nothing else with it. Later looks at one that goes on so are delayed
    /// by batch_claim.sql.
    pub fn is_suspect(&self) -> bool {
        self.reclaims >= 3 && self.size > 1
    }
}

/// What a sender needs to make the calls of a broadcast.
#[derive(Debug, Clone)]
pub struct Work {
    pub id: BroadcastId,
    /// The id under which devices and providers know the notification: a replay keeps that of the original.
    pub origin: BroadcastId,
    pub message: Message,
    pub priority: Priority,
    pub cancelled: bool,
    pub paused: bool,
    pub at_most_once: bool,
    /// Calls within any second at most, of all senders together.
    pub max_rate_per_second: Option<u32>,
    /// Until it expires; zero when it has.
    pub time_left: Duration,
    /// The span that asked for it, where it is sampled.
    pub trace_context: Option<String>,
    /// How long connected users have to acknowledge before the push goes out, where it waits for that.
    pub ack_timeout: Option<Duration>,
}

/// A connection of its own for claims and reads.
#[derive(Debug)]
pub struct ClaimLane {
    pub(crate) lane: Lane,
    pub(crate) sender: SenderId,
    pub(crate) store: Store,
    pub(crate) turns: Turns,
}

impl Store {
    pub fn claim_lane(&self, sender: SenderId) -> ClaimLane {
        ClaimLane { lane: self.lane(), sender, store: self.clone(), turns: Turns::new() }
    }
}

impl ClaimLane {
    /// Leases ready work for `lease`. With `reclaim` also that of leases which ran out, unless the batch is among `held`, which
    /// this sender renews. What is returned has been committed; after an error some may have been all the same
    /// ([`ClaimLane::release_beside`]).
    pub async fn claim(
        &mut self,
        wants: &[Want],
        lease: Duration,
        reclaim: Option<Reclaim>,
        held: &[LeasedBatch],
    ) -> Result<Vec<LeasedBatch>> {
        let mut round = self.turns.begin(self.store.shards().await?, wants);
        let mut claimed = vec![];
        while let Some((shard, wants)) = self.turns.next(&mut round) {
            let asked = Instant::now();
            let batches = self.claim_in(shard, &wants, lease, reclaim, held).await?;
            self.turns.took(&mut round, shard, &wants, &batches, asked);
            claimed.extend(batches);
        }
        Ok(claimed)
    }

    async fn claim_in(
        &mut self,
        shard: Shard,
        wants: &[Want],
        lease: Duration,
        reclaim: Option<Reclaim>,
        held: &[LeasedBatch],
    ) -> Result<Vec<LeasedBatch>> {
        let held: Vec<i64> = held.iter().map(|b| b.id.0).collect();
        let providers: Vec<i16> = wants.iter().map(|w| w.provider.0).collect();
        let batches: Vec<i32> = wants.iter().map(|w| w.batches).collect();
        let deliveries: Vec<i32> = wants.iter().map(|w| w.deliveries).collect();
        let floors: Vec<i64> = wants.iter().map(|w| w.floor).collect();
        let ceilings: Vec<i64> = wants.iter().map(|w| w.beside.map_or(i64::MAX, |b| b.rank)).collect();
        let after: Vec<i64> = wants.iter().map(|w| self.turns.passed(shard, w)).collect();
        let within: Vec<f64> = wants.iter().map(|w| self.turns.due_within(shard, w).as_secs_f64()).collect();
        let retries: Vec<bool> = wants.iter().map(|w| w.beside.is_none_or(|b| b.retries)).collect();
        let owner = self.sender.0;
        self.lane
            .run("claim", async |connection| {
                Ok(sqlx::query_file_as!(
                    LeasedBatch,
                    "queries/batch_claim.sql",
                    shard,
                    &providers,
                    &batches,
                    &deliveries,
                    &floors,
                    owner,
                    lease.as_secs_f64(),
                    reclaim.map(|reclaim| reclaim.up.as_secs_f64()),
                    &held,
                    reclaim.map(|reclaim| reclaim.heartbeat_at),
                    &ceilings,
                    &retries,
                    &after,
                    &within
                )
                .fetch_all(connection)
                .await?)
            })
            .await
    }

    /// Leases one batch of a parked provider for `lease`, to try whether it works again.
    pub async fn claim_probe(
        &mut self,
        provider: ProviderId,
        lease: Duration,
        reclaim: Option<Reclaim>,
        held: &[LeasedBatch],
    ) -> Result<Option<LeasedBatch>> {
        for shard in self.turns.order(self.store.shards().await?) {
            let probe = self.claim_probe_in(shard, provider, lease, reclaim, held).await?;
            if probe.is_some() {
                return Ok(probe);
            }
        }
        Ok(None)
    }

    async fn claim_probe_in(
        &mut self,
        shard: Shard,
        provider: ProviderId,
        lease: Duration,
        reclaim: Option<Reclaim>,
        held: &[LeasedBatch],
    ) -> Result<Option<LeasedBatch>> {
        let held: Vec<i64> = held.iter().map(|b| b.id.0).collect();
        let owner = self.sender.0;
        self.lane
            .run("claim of a probe", async |connection| {
                Ok(sqlx::query_file_as!(
                    LeasedBatch,
                    "queries/batch_claim_probe.sql",
                    shard,
                    provider.0,
                    owner,
                    lease.as_secs_f64(),
                    reclaim.map(|reclaim| reclaim.heartbeat_at),
                    &held
                )
                .fetch_optional(connection)
                .await?)
            })
            .await
    }

    /// Messages and flags of these broadcasts.
    pub async fn work(&mut self, broadcasts: &[BroadcastId]) -> Result<Vec<Work>> {
        let ids: Vec<i64> = broadcasts.iter().map(|b| b.0).collect();
        self.lane
            .run("read of broadcasts", async |connection| {
                let rows =
                    sqlx::query_file!("queries/broadcast_work.sql", &ids).fetch_all(connection).await?;
                Ok(rows
                    .into_iter()
                    .map(|r| {
                        let data: Json<BTreeMap<String, String>> = r.data;
                        Work {
                            id: r.id,
                            origin: r.origin,
                            message: Message { title: r.title, body: r.body, data: data.0 },
                            priority: r.priority,
                            cancelled: r.cancelled,
                            paused: r.paused,
                            at_most_once: r.at_most_once,
                            max_rate_per_second: positive(r.max_rate_per_second),
                            time_left: Duration::from_secs_f64(r.seconds_left.max(0.0)),
                            trace_context: r.trace_context,
                            ack_timeout: r.ack_seconds.map(Duration::from_secs_f64),
                        }
                    })
                    .collect())
            })
            .await
    }

    /// Gives back what is leased to this sender beside `held`: a claim whose answer was lost leaves such leases.
    pub async fn release_beside(&mut self, held: &[LeasedBatch]) -> Result<u64> {
        let (sender, shards) = (self.sender, self.store.shards().await?);
        self.lane.run("release", async |connection| release(connection, shards, sender, held).await).await
    }

    /// Says goodbye to the server.
    pub async fn close(&mut self) {
        self.lane.close().await;
    }
}
