//! Four shards on a plain Postgres: everything is in one of them, is found wherever it is, and none is forgotten.

mod devices;
mod queue;

use bongsu_store::{BroadcastId, DeliveryFilter, DeviceFilter, DeviceId, Store};

pub async fn live(store: &Store) -> Vec<DeviceId> {
    let all = DeviceFilter { limit: 100_000, ..Default::default() };
    store.list_devices(&all).await.unwrap().into_iter().map(|d| d.id).collect()
}

/// The devices of a broadcast, as listed.
pub async fn reached(store: &Store, broadcast: BroadcastId) -> Vec<DeviceId> {
    let filter = DeliveryFilter { broadcast, states: vec![], provider: None, after: None, limit: 100_000 };
    store.list_deliveries(&filter).await.unwrap().into_iter().map(|d| d.device).collect()
}

/// What these tests spread their devices over.
pub const SHARDS: i16 = 4;
