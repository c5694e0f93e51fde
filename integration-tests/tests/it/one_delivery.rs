//! Promise 2: one delivery per broadcast and device, whoever sends.

use provider_sim::Behaviour;

use crate::world::{World, quick};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_device_is_called_exactly_once_by_several_senders() {
    let mut world = World::with_sender(Behaviour::default()).await;
    world.add_sender(quick).await;
    world.add_sender(quick).await;
    world.import_good(5_000).await;
    let id = world.broadcast("k").await.id;
    let status = world.finish(id).await;
    assert_eq!(status.counts.unwrap().sent, 5_000);
    let stats = world.sim.stats().await;
    assert_eq!((stats.calls, stats.accepted, stats.duplicates), (5_000, 5_000, 0));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_gets_one_call_for_each_of_several_broadcasts() {
    let mut world = World::with_sender(Behaviour::default()).await;
    world.import_good(50).await;
    let mut ids = vec![];
    for n in 0..5 {
        ids.push(world.broadcast(&format!("k{n}")).await.id);
    }
    for id in ids {
        assert_eq!(world.finish(id).await.counts.unwrap().sent, 50);
    }
    assert_eq!(world.sim.stats().await.accepted, 250);
    world.stop().await;
}
