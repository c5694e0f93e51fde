//! Promise 6: a provider outage is not a failed broadcast.

use bongsu_proto::v1::{BroadcastStatus, GetStatusRequest, StreamStatusRequest};
use bongsu_store::testing::open_batches;
use provider_sim::Behaviour;
use serde_json::json;

use crate::world::{World, quick, registration, until};

/// Follows a broadcast until one of its providers is parked; returns that status.
pub async fn parked(world: &World, id: i64) -> BroadcastStatus {
    let request = StreamStatusRequest { broadcast_id: id };
    let mut stream = world.deliveries().await.stream_status(request).await.unwrap().into_inner();
    loop {
        let status = stream.message().await.unwrap().expect("not final").status.unwrap();
        if status.providers.iter().any(|p| p.parked_since.is_some()) {
            return status;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_longer_than_the_retry_schedule_kills_nothing_and_ends_by_itself() {
    let mut world = World::new(Behaviour { latency_ms: 20, ..Default::default() }).await;
    for _ in 0..2 {
        world
            .add_sender(|config| {
                quick(config); // four attempts within 260 ms
                config.in_flight = 50;
            })
            .await;
    }
    world.import_good(4_000).await;
    let id = world.broadcast("k").await.id;
    world.sim.accepted(500).await;
    world.sim.behave(json!({"outage": true})).await;
    let status = parked(&world, id).await;
    assert_eq!(status.providers[0].parked_code, "503");
    // Nothing but probes once the senders have given back what they held.
    let store = world.store();
    until("all is given back", async || open_batches(&store, &["ready", "waiting"]).await == 0).await;
    let before = world.sim.stats().await;
    until("three probes were made", async || world.sim.stats().await.outage >= before.outage + 3).await;
    let request = GetStatusRequest { broadcast_id: id };
    let answer = world.deliveries().await.get_status(request).await.unwrap().into_inner();
    let counts = answer.status.unwrap().counts.unwrap();
    assert!(counts.dead == 0 && counts.pending > 1_000, "{counts:?}");

    world.sim.behave(json!({"outage": false})).await;
    let status = world.finish(id).await;
    let counts = status.counts.unwrap();
    assert_eq!((counts.sent, counts.dead), (4_000, 0), "{counts:?}");
    assert!(status.providers[0].parked_since.is_none());
    let stats = world.sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates), (4_000, 0));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_delivery_waits_for_a_provider_that_cannot_be_reached() {
    let mut world = World::new(Behaviour::default()).await;
    // Nobody listens there yet.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    world
        .add_sender(|config| {
            config.webhooks = vec![format!("push=h2c://{address}/push").parse().unwrap()];
            config.retry_initial_ms = 300; // the third failure comes after more than a second
        })
        .await;
    world.import_good(1).await;
    let id = world.broadcast("k").await.id;
    let status = parked(&world, id).await;
    assert_eq!(status.providers[0].parked_code, "connect");
    world.sim.move_to(address).await;
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead), (1, 0));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_never_answers_is_parked_and_another_ones_deliveries_go_on() {
    let mut world = World::new(Behaviour { hang: true, ..Default::default() }).await;
    let second = world.second_sim().await;
    world
        .add_sender(|config| {
            config.webhooks.push(format!("other=h2c://{second}/push").parse().unwrap());
            config.call_timeout_ms = 300;
            config.in_flight = 20;
        })
        .await;
    world.import_good(200).await;
    let mut others: Vec<_> = (0..200).map(|i| registration(&format!("other-{i}"))).collect();
    others.iter_mut().for_each(|r| r.provider = "other".into());
    world.import_registrations(others).await;
    let id = world.broadcast("k").await.id;
    let status = parked(&world, id).await;
    let push = status.providers.iter().find(|p| p.provider == "push").unwrap();
    assert_eq!((push.parked_code.as_str(), push.parked_since.is_some()), ("timeout", true));
    let store = world.store();
    until("the other provider has all of its own", async || {
        let status = store.status(bongsu_store::BroadcastId(id)).await.unwrap().unwrap();
        status.providers.iter().any(|p| p.provider == "other" && p.counts.sent == 200)
    })
    .await;
    world.sim.behave(json!({"hang": false})).await;
    assert_eq!(world.finish(id).await.counts.unwrap().sent, 400);
    world.stop().await;
}
