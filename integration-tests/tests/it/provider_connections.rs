//! N01 to N03: what a provider does to an HTTP/2 connection costs no delivery, and connections stay few.

use provider_sim::Behaviour;
use serde_json::json;

use crate::world::{World, quick, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_told_to_go_away_is_replaced_and_nothing_is_lost_or_repeated() {
    let behaviour = Behaviour { goaway_after: 50, latency_ms: 20, jitter_ms: 10, ..Default::default() };
    let mut world = World::new(behaviour).await;
    world
        .add_sender(|config| {
            quick(config);
            config.in_flight = 190;
        })
        .await;
    world.import_good(2_000).await;
    let id = world.broadcast("k").await.id;
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead), (2_000, 0), "{counts:?}");
    let stats = world.sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates, stats.calls), (2_000, 0, 2_000));
    // Two at a time, each replaced after 50 calls and what was on its way when it was told; and ours to the simulator.
    assert!((15..=60).contains(&stats.connections_total), "{stats:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_with_few_streams_gets_no_more_calls_than_those_and_no_more_connections() {
    let behaviour = Behaviour { max_streams: 10, latency_ms: 20, ..Default::default() };
    let mut world = World::new(behaviour).await;
    world
        .add_sender(|config| {
            quick(config);
            config.in_flight = 190;
        })
        .await;
    world.import_good(500).await;
    let id = world.broadcast("k").await.id;
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead, counts.retried), (500, 0, 0), "{counts:?}");
    let stats = world.sim.stats().await;
    assert!(stats.max_open <= 20, "ten on each of two connections: {stats:?}");
    assert!(stats.connections_total <= 5, "{stats:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_hang_end_and_the_connection_they_were_on_goes_on() {
    let mut world = World::new(Behaviour { hang: true, ..Default::default() }).await;
    world
        .add_sender(|config| {
            quick(config);
            config.in_flight = 90;
            config.call_timeout_ms = 500;
        })
        .await;
    world.import_good(90).await;
    let id = world.broadcast("k").await.id;
    until("all hang", async || world.sim.stats().await.hung >= 90).await;
    world.sim.behave(json!({"hang": false})).await;
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead), (90, 0), "{counts:?}");
    let stats = world.sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates), (90, 0));
    assert!(stats.connections_total <= 5, "{stats:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_takes_fewer_connections_than_a_sender_opens_costs_no_delivery_and_is_not_hammered() {
    let behaviour = Behaviour { max_connections: 2, latency_ms: 20, ..Default::default() };
    let mut world = World::new(behaviour).await;
    // Ours, which stays: one is left for the sender, which would open two.
    assert_eq!(world.sim.stats().await.connections, 1);
    world
        .add_sender(|config| {
            quick(config);
            config.in_flight = 190;
        })
        .await;
    world.import_good(5_000).await;
    let id = world.broadcast("k").await.id;
    let counts = world.finish(id).await.counts.unwrap();
    let stats = world.sim.stats().await;
    assert_eq!((counts.sent, counts.dead), (5_000, 0), "{counts:?}");
    assert_eq!((stats.accepted, stats.duplicates, stats.calls), (5_000, 0, 5_000), "{stats:?}");
    // The 95 calls that were on their way before the first of them failed, and some more; not every second call.
    assert!((1..=200).contains(&stats.refused_connections) && counts.retried <= 200, "{counts:?} {stats:?}");
    world.stop().await;
}
