//! What the tests of the queue begin with: devices, broadcasts, and senders driven by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use bongsu_store::{
    Acceptance, Audience, Beside, Broadcast, BroadcastId, BroadcastState, Counts, DeadReason, DeviceId,
    DueDelivery, Expiry, FanOut, Flush, Flushed, Guarantee, LeasedBatch, Message, NewBroadcast, Outcome,
    Priority, ProviderId, ProviderKind, Reclaim, Registration, SenderId, SetShards, Store, Verdict, Want,
};

use crate::harness::{self, sql};

pub const LEASE: Duration = Duration::from_secs(20);
/// The clock of the database, which runs on the same machine.
pub fn now() -> time::OffsetDateTime {
    time::OffsetDateTime::now_utc()
}

/// As a sender whose heartbeat was answered just now.
pub fn reclaim() -> Option<Reclaim> {
    Some(Reclaim { up: Duration::ZERO, heartbeat_at: now() })
}

pub const HOUR: Duration = Duration::from_secs(3_600);

/// A store with one provider and `devices` devices of as many users.
pub async fn stage(devices: usize) -> (Store, ProviderId) {
    stage_on(1, devices).await
}

/// The same, spread over so many shards.
pub async fn stage_on(shards: i16, devices: usize) -> (Store, ProviderId) {
    let store = harness::store().await;
    if shards != 1 {
        assert_eq!(store.set_shards(shards).await.unwrap(), SetShards::Set);
    }
    let provider = furnish(&store, devices).await;
    (store, provider)
}

/// Gives it one provider and `devices` devices of as many users.
pub async fn furnish(store: &Store, devices: usize) -> ProviderId {
    let provider = store.register_provider("push", ProviderKind::Webhook).await.unwrap().unwrap();
    let registrations: Vec<_> = (0..devices).map(|n| registration(provider, n)).collect();
    for chunk in registrations.chunks(10_000) {
        store.import(chunk).await.unwrap();
    }
    provider
}

pub fn registration(provider: ProviderId, n: usize) -> Registration {
    Registration {
        user_id: format!("user-{n}"),
        provider_id: provider,
        token: format!("token-{n}"),
        installation_id: None,
        consent: None,
        topics: vec![],
    }
}

pub fn new_broadcast(key: &str, audience: Audience) -> NewBroadcast {
    NewBroadcast {
        client_id: "test".into(),
        idempotency_key: key.into(),
        message: Message { title: "봉수".into(), body: "불이 올랐다".into(), data: BTreeMap::new() },
        audience,
        priority: Priority::Normal,
        guarantee: Guarantee::AtLeastOnce,
        expiry: Expiry::After(HOUR),
        schedule: None,
        max_rate_per_second: None,
        routing: Default::default(),
        ack_timeout: None,
        request_hash: [7; 32],
        trace_context: None,
    }
}

pub async fn accept(store: &Store, key: &str, audience: Audience) -> Broadcast {
    match store.accept(&new_broadcast(key, audience)).await.unwrap() {
        Acceptance::New(broadcast) => *broadcast,
        other => panic!("not new: {other:?}"),
    }
}

/// Accepts a broadcast to everyone and fans it out whole.
pub async fn fanned_out(store: &Store, key: &str) -> BroadcastId {
    let id = accept(store, key, Audience::Everyone).await.id;
    fan_out_all(store).await;
    id
}

pub async fn fan_out_all(store: &Store) {
    while store.fan_out_page().await.unwrap() != FanOut::Idle {}
}

pub async fn counts(store: &Store, id: BroadcastId) -> Counts {
    store.broadcast(id).await.unwrap().unwrap().counts
}

pub async fn state(store: &Store, id: BroadcastId) -> BroadcastState {
    store.broadcast(id).await.unwrap().unwrap().state
}

/// A sender driven by hand.
pub struct Sender {
    pub id: SenderId,
    pub store: Store,
    provider: ProviderId,
}

impl Sender {
    pub fn new(store: &Store, provider: ProviderId) -> Self {
        Self { id: SenderId::random(), store: store.clone(), provider }
    }

    pub async fn claim_up_to(&self, deliveries: i32) -> Vec<LeasedBatch> {
        let want = Want { provider: self.provider, batches: 64, deliveries, floor: i64::MIN, beside: None };
        self.store.claim_lane(self.id).claim(&[want], LEASE, reclaim(), &[]).await.unwrap()
    }

    /// As a sender that holds `held`.
    pub async fn claim_beside(&self, held: &[LeasedBatch]) -> Vec<LeasedBatch> {
        let want = Want {
            provider: self.provider,
            batches: 64,
            deliveries: 1_000_000,
            floor: i64::MIN,
            beside: None,
        };
        self.store.claim_lane(self.id).claim(&[want], LEASE, reclaim(), held).await.unwrap()
    }

    /// As a sender that has work up to this rank in hand.
    pub async fn claim_before(&self, rank: i64) -> Vec<LeasedBatch> {
        let beside = Some(Beside { rank, retries: true });
        let want = Want { provider: self.provider, batches: 64, deliveries: 100, floor: i64::MIN, beside };
        self.store.claim_lane(self.id).claim(&[want], LEASE, reclaim(), &[]).await.unwrap()
    }

    pub async fn claim(&self) -> Vec<LeasedBatch> {
        self.claim_up_to(1_000_000).await
    }

    pub async fn read(&self, batches: &[LeasedBatch]) -> Vec<DueDelivery> {
        self.store.claim_lane(self.id).read(batches).await.unwrap()
    }

    pub async fn flush(&self, flush: Flush) -> Flushed {
        self.store.flush_lane(self.id).flush(&flush).await.unwrap()
    }

    /// As [`Sender::settle`], and every outcome counts.
    pub async fn settle_all(&self, batches: &[LeasedBatch], verdict: impl Fn(DeviceId) -> Verdict) {
        let flushed = self.settle(batches, verdict).await;
        assert_eq!((flushed.fenced, flushed.stale), (0, 0));
    }

    /// Answers everything in `batches` and closes them.
    pub async fn settle(&self, batches: &[LeasedBatch], verdict: impl Fn(DeviceId) -> Verdict) -> Flushed {
        let due = self.read(batches).await;
        let outcomes = outcomes(batches, &due, verdict);
        self.flush(Flush { outcomes, closed: batches.to_vec(), unfit: vec![] }).await
    }
}

pub fn outcomes(
    batches: &[LeasedBatch],
    due: &[DueDelivery],
    verdict: impl Fn(DeviceId) -> Verdict,
) -> Vec<Outcome> {
    due.iter()
        .map(|d| Outcome {
            batch: *batches.iter().find(|b| b.id == d.batch).unwrap(),
            device: d.device,
            verdict: verdict(d.device),
        })
        .collect()
}

pub fn retry(after: Duration) -> Verdict {
    Verdict::Retry { after, code: "503".into(), detail: String::new(), charged: true }
}

pub fn exhausted() -> Verdict {
    Verdict::Dead { reason: DeadReason::AttemptsExhausted, code: "503".into(), detail: "busy".into() }
}

/// Sweeps until there is nothing to do.
pub async fn sweep_all(store: &Store) {
    let mut lane = store.sweep_lane();
    while !lane.sweep().await.unwrap().round_over {}
}

/// Lets every lease run out.
pub async fn expire_leases(store: &Store) {
    sql(store, "UPDATE batch SET lease_expires_at = now() - interval '10 s' WHERE state = 'leased' RETURNING 1::bigint").await;
}
