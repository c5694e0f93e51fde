//! Promise 4: every delivery ends in exactly one final state, and what is shown is what is committed.

use bongsu_proto::v1::{BroadcastState, StreamStatusRequest};
use provider_sim::Behaviour;
use serde_json::json;
use tonic::Code;

use crate::world::{World, check_sums, quick};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn books_balance_between_status_database_and_provider() {
    let mut world = World::with_sender(Behaviour { transient: 0.1, seed: 3, ..Default::default() }).await;
    world.import_good(3_000).await;
    let id = world.broadcast("k").await.id;
    let counts = world.finish(id).await.counts.unwrap();
    let stats = world.sim.stats().await;
    assert_eq!((counts.sent, counts.pending), (i64::try_from(stats.accepted).unwrap(), 0));
    assert_eq!(counts.sent + counts.dead, 3_000);
    assert_eq!(stats.duplicates, 0);
    // Each failed attempt was followed by another one or a dead letter.
    assert_eq!(counts.retried + counts.dead, i64::try_from(stats.transient).unwrap());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_stream_begins_at_once_never_goes_back_and_ends_with_the_final_state() {
    let mut world = World::new(Behaviour { latency_ms: 100, ..Default::default() }).await;
    world.add_sender(|config| config.in_flight = 50).await;
    world.import_good(2_000).await;
    let id = world.broadcast("k").await.id;
    let request = StreamStatusRequest { broadcast_id: id };
    let mut stream = world.deliveries().await.stream_status(request).await.unwrap().into_inner();
    let mut seen = vec![];
    while let Some(message) = stream.message().await.unwrap() {
        let status = message.status.unwrap();
        check_sums(&status);
        seen.push(status);
    }
    let settled: Vec<_> = seen.iter().map(|s| s.counts.unwrap().sent).collect();
    assert!(settled.is_sorted(), "{settled:?}");
    assert!(seen.len() >= 2, "progress was shown: {settled:?}");
    let last = seen.last().unwrap();
    assert_eq!((last.state(), last.counts.unwrap().sent), (BroadcastState::Completed, 2_000));
    // One that is final already: the state, and the end.
    let mut again = world.deliveries().await.stream_status(request).await.unwrap().into_inner();
    assert_eq!(again.message().await.unwrap().unwrap().status.unwrap().state(), BroadcastState::Completed);
    assert!(again.message().await.unwrap().is_none());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_stream_of_an_unknown_broadcast_is_not_found_and_one_at_a_draining_sender_says_so() {
    let mut world = World::new(Behaviour::default()).await;
    world.add_sender(quick).await;
    world.add_sender(quick).await;
    let mut deliveries = world.deliveries().await;
    let unknown = deliveries.stream_status(StreamStatusRequest { broadcast_id: 42 }).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    world.sim.behave(json!({"hang": true})).await;
    world.import_good(1).await;
    let id = world.broadcast("k").await.id;
    let mut stream =
        deliveries.stream_status(StreamStatusRequest { broadcast_id: id }).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    let leaving = world.take_sender();
    world.sim.behave(json!({"hang": false})).await;
    tokio::spawn(leaving.stop());
    let end = loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("ended as if the broadcast were final"),
            Err(status) => break status,
        }
    };
    assert_eq!(end.code(), Code::Unavailable, "{end:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_told_to_stop_finishes_its_calls_and_the_next_one_does_the_rest_without_duplicates() {
    let mut world = World::new(Behaviour { latency_ms: 60, jitter_ms: 10, ..Default::default() }).await;
    world.add_sender(|config| config.in_flight = 64).await;
    world.import_good(3_000).await;
    let id = world.broadcast("k").await.id;
    world.sim.accepted(500).await;
    world.take_sender().stop().await;
    let stats = world.sim.stats().await;
    assert!(stats.accepted < 3_000, "stopped in the middle");
    let recorded = world.store().broadcast(bongsu_store::BroadcastId(id)).await.unwrap().unwrap().counts;
    assert_eq!(recorded.sent, i64::try_from(stats.accepted).unwrap(), "all that was accepted is recorded");
    world.add_sender(quick).await;
    assert_eq!(world.finish(id).await.counts.unwrap().sent, 3_000);
    let stats = world.sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates, stats.calls), (3_000, 0, 3_000));
    world.stop().await;
}
