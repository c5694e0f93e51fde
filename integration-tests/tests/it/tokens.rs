//! What answers do to devices: only an explicit "gone" retires one.

use bongsu_proto::v1::{CancelBroadcastRequest, ListDevicesRequest, RetireReason};
use provider_sim::Behaviour;
use serde_json::json;

use crate::world::{World, until};

async fn live_users(world: &mut World) -> Vec<String> {
    let request = ListDevicesRequest { page_size: 1_000, ..Default::default() };
    let devices = world.devices.list_devices(request).await.unwrap().into_inner().devices;
    devices.into_iter().map(|d| d.user_id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_gone_is_retired_and_not_called_by_the_next_broadcast() {
    let mut world = World::with_quick_decisions(Behaviour::default()).await;
    world.import(["expired-1", "good-1"]).await;
    let id = world.broadcast("one").await.id;
    world.finish(id).await;
    until("it is retired", async || live_users(&mut world).await == ["good-1"]).await;
    let request =
        ListDevicesRequest { include_retired: true, user_id: "expired-1".into(), ..Default::default() };
    let device = world.devices.list_devices(request).await.unwrap().into_inner().devices.remove(0);
    assert_eq!(device.retire_reason(), RetireReason::Unregistered);
    let next = world.broadcast("two").await.id;
    assert_eq!(world.finish(next).await.counts.unwrap().total, 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_answer_touches_a_device() {
    let mut world = World::with_sender(Behaviour::default()).await;
    world.import_good(5).await;
    for status in [301, 400, 401, 403, 404, 413, 422, 429, 500, 503] {
        world.sim.behave(json!({"status": status})).await;
        let before = world.sim.stats().await.calls;
        let id = world.broadcast(&format!("status {status}")).await.id;
        until("it was answered so", async || world.sim.stats().await.calls > before).await;
        // Some of these park the provider, which would take longer than a test has; others have completed it.
        let _ = world.broadcasts.cancel_broadcast(CancelBroadcastRequest { broadcast_id: id }).await;
        let counts = world.finish(id).await.counts.unwrap();
        assert_eq!((counts.total, counts.dead_unregistered), (5, 0), "{status}");
    }
    assert_eq!(live_users(&mut world).await.len(), 5);
    world.stop().await;
}
