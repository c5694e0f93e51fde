//! N01 to N03: what a provider does to an HTTP/2 connection costs no delivery, and connections stay few.

use bongsu_proto::v1::{CreateBroadcastRequest, Guarantee};
use provider_sim::Behaviour;
use serde_json::json;

use crate::refusing_provider::{ENHANCE_YOUR_CALM, LEAST_REFUSED, NO_ERROR, Refusal, RefusingProvider};
use crate::world::{World, quick, to_everyone, until};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_the_provider_refused_unseen_is_made_again_and_once() {
    for refusal in [Refusal::GoAway(NO_ERROR), Refusal::GoAway(ENHANCE_YOUR_CALM), Refusal::Reset] {
        refuse(refusal, Guarantee::AtLeastOnce).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_once_a_call_that_the_provider_refused_unseen_is_made_again_and_not_unconfirmed() {
    for refusal in [Refusal::GoAway(NO_ERROR), Refusal::GoAway(ENHANCE_YOUR_CALM), Refusal::Reset] {
        refuse(refusal, Guarantee::AtMostOnce).await;
    }
}

/// Has a broadcast sent by a provider that refuses many of its calls in a way that tells that it did not look at them.
async fn refuse(refusal: Refusal, guarantee: Guarantee) {
    let provider = RefusingProvider::start(refusal).await;
    let webhook = format!("push=h2c://{}/push", provider.address).parse().unwrap();
    let mut world = World::new(Behaviour::default()).await;
    world
        .add_sender(|config| {
            quick(config);
            config.webhooks = vec![webhook];
            config.in_flight = 90; // one connection
            config.never_park = true; // nothing but refusals for a while
        })
        .await;
    world.import_good(300).await;
    let request = CreateBroadcastRequest { guarantee: guarantee.into(), ..to_everyone("k") };
    let id = world.create(request).await.id;
    let counts = world.finish(id).await.counts.unwrap();
    let seen = provider.seen();
    assert_eq!((counts.sent, counts.dead, counts.unconfirmed), (300, 0, 0), "{refusal:?}: {counts:?}");
    let refused: u32 = seen.refused.values().sum();
    assert!(refused >= LEAST_REFUSED, "{refusal:?}: {seen:?}");
    // A harmless reason lets the HTTP client make a call again, twice; of others the queue hears each time.
    if refusal == Refusal::GoAway(ENHANCE_YOUR_CALM) {
        assert!(counts.retried >= i64::from(LEAST_REFUSED), "{counts:?}");
    }
    assert_eq!(seen.accepted.len(), 300);
    assert!(seen.accepted.values().all(|calls| *calls == 1), "{seen:?}");
    world.stop().await;
}
