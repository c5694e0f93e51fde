//! Promise 8: pause, resume, cancel and expiry act on a running broadcast.

use bongsu_proto::v1::create_broadcast_request::Expiry;
use bongsu_proto::v1::{
    BroadcastState, CancelBroadcastRequest, CreateBroadcastRequest, GetStatusRequest, PauseBroadcastRequest,
    ResumeBroadcastRequest, StreamStatusRequest,
};
use bongsu_store::testing::open_batches;
use provider_sim::Behaviour;
use serde_json::json;
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::world::{World, quick, to_everyone, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_paused_resumed_and_cancelled_in_turn_does_each_and_its_books_balance() {
    let mut world = World::new(Behaviour { latency_ms: 30, jitter_ms: 10, ..Default::default() }).await;
    for _ in 0..2 {
        world.add_sender(|config| config.in_flight = 30).await;
    }
    world.import_good(10_000).await;
    let id = world.broadcast("k").await.id;
    world.sim.accepted(1_000).await;
    let store = world.store();
    let mut calls = 0;
    // Twice, since a batch that was held once is another one than a fresh one.
    for round in 1..=2 {
        world.broadcasts.pause_broadcast(PauseBroadcastRequest { broadcast_id: id }).await.unwrap();
        until("all is held", async || open_batches(&store, &["held"]).await == 0).await;
        let paused = world.sim.stats().await;
        assert!(paused.open == 0 && paused.calls > calls && paused.calls < 10_000, "{paused:?}");
        assert!(store.broken_invariants().await.unwrap().is_empty());
        // What came of the calls is recorded by now, so nothing more can come.
        let counts = store.broadcast(bongsu_store::BroadcastId(id)).await.unwrap().unwrap().counts;
        assert_eq!(counts.sent, i64::try_from(paused.accepted).unwrap(), "as the provider answered");
        calls = world.sim.stats().await.calls;
        assert_eq!(calls, paused.calls, "nobody calls while it is paused");
        world.broadcasts.resume_broadcast(ResumeBroadcastRequest { broadcast_id: id }).await.unwrap();
        world.sim.accepted(calls + 500 * round).await;
    }
    let answered = world.broadcasts.cancel_broadcast(CancelBroadcastRequest { broadcast_id: id }).await;
    assert_eq!(answered.unwrap().into_inner().broadcast.unwrap().state(), BroadcastState::Cancelling);
    let status = world.finish(id).await;
    let (counts, stats) = (status.counts.unwrap(), world.sim.stats().await);
    assert_eq!((status.state(), counts.total), (BroadcastState::Cancelled, 10_000));
    assert_eq!(counts.sent + counts.cancelled, 10_000, "{counts:?}");
    assert_eq!(counts.sent, i64::try_from(stats.accepted).unwrap(), "{counts:?} {stats:?}");
    assert!(stats.calls == stats.accepted && stats.open == 0 && counts.cancelled > 0, "{stats:?}");
    assert!(store.broken_invariants().await.unwrap().is_empty());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_in_the_middle_stops_the_calls_and_every_delivery_ends() {
    let mut world = World::new(Behaviour { latency_ms: 50, ..Default::default() }).await;
    world.add_sender(|config| config.in_flight = 20).await;
    world.import_good(3_000).await;
    let id = world.broadcast("k").await.id;
    world.sim.accepted(100).await;
    let cancel = CancelBroadcastRequest { broadcast_id: id };
    world.broadcasts.cancel_broadcast(cancel).await.unwrap();
    let status = world.finish(id).await;
    let counts = status.counts.unwrap();
    assert_eq!(status.state(), BroadcastState::Cancelled);
    assert_eq!((counts.total, counts.sent + counts.cancelled), (3_000, 3_000), "{counts:?}");
    assert!(counts.cancelled > 1_000, "most had not been called: {counts:?}");
    let stats = world.sim.stats().await;
    assert_eq!(
        counts.sent,
        i64::try_from(stats.accepted).unwrap(),
        "what was answered is recorded as answered"
    );
    world.broadcasts.cancel_broadcast(cancel).await.expect("again is harmless");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completed_broadcast_cannot_be_cancelled() {
    let mut world = World::with_sender(Behaviour::default()).await;
    world.import_good(3).await;
    let id = world.broadcast("k").await.id;
    world.finish(id).await;
    let refused =
        world.broadcasts.cancel_broadcast(CancelBroadcastRequest { broadcast_id: id }).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(refused.get_error_details().error_info().unwrap().reason, "BROADCAST_FINAL");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_sent_in_time_ends_expired_and_is_never_called_again() {
    let mut world = World::with_sender(Behaviour { outage: true, ..Default::default() }).await;
    world.add_sender(quick).await;
    world.import_good(50).await;
    let ttl = Expiry::Ttl(prost_types::Duration { seconds: 1, nanos: 0 });
    // Retried for longer than it lives.
    world.sim.behave(json!({"retry_after_s": 3600})).await;
    let id = world.create(CreateBroadcastRequest { expiry: Some(ttl), ..to_everyone("k") }).await.id;
    let status = world.finish(id).await;
    let counts = status.counts.unwrap();
    assert_eq!(
        (status.state(), counts.expired, counts.sent),
        (BroadcastState::Completed, 50, 0),
        "{counts:?}"
    );
    world.sim.behave(json!({"outage": false})).await;
    let before = world.sim.stats().await.calls;
    assert_eq!(before, 50, "each was tried once, and not again before its time");
    let next = world.broadcast("next").await.id;
    world.finish(next).await;
    assert_eq!(world.sim.stats().await.calls, before + 50, "only the next broadcast was called");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pausing_in_the_middle_stops_the_calls_and_resuming_sends_the_rest_once() {
    let mut world = World::new(Behaviour { latency_ms: 50, ..Default::default() }).await;
    world.add_sender(|config| config.in_flight = 20).await;
    world.add_sender(|config| config.in_flight = 20).await;
    world.import_good(3_000).await;
    let id = world.broadcast("k").await.id;
    world.sim.accepted(100).await;
    let pause = PauseBroadcastRequest { broadcast_id: id };
    assert!(world.broadcasts.pause_broadcast(pause).await.unwrap().into_inner().broadcast.unwrap().paused);
    world.broadcasts.pause_broadcast(pause).await.expect("again is harmless");
    // Once all of it is held, nobody can call.
    let store = world.store();
    until("all is held", async || open_batches(&store, &["held"]).await == 0).await;
    let paused = world.sim.stats().await;
    assert!(paused.open == 0 && paused.calls < 3_000, "{paused:?}");
    let mut deliveries = world.deliveries().await;
    let status = deliveries.get_status(GetStatusRequest { broadcast_id: id }).await.unwrap().into_inner();
    let status = status.status.unwrap();
    assert!(status.paused && status.state() == BroadcastState::Delivering);
    assert_eq!(status.counts.unwrap().sent, i64::try_from(paused.accepted).unwrap());
    // Another broadcast is not stopped by it.
    let other = world.broadcast("other").await.id;
    assert_eq!(world.finish(other).await.counts.unwrap().sent, 3_000);
    assert_eq!(world.sim.stats().await.calls, paused.calls + 3_000);

    let request = StreamStatusRequest { broadcast_id: id };
    let mut stream = deliveries.stream_status(request).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().unwrap().status.unwrap().paused, "a watcher sees it at once");
    world.broadcasts.resume_broadcast(ResumeBroadcastRequest { broadcast_id: id }).await.unwrap();
    let counts = world.finish(id).await.counts.unwrap();
    let stats = world.sim.stats().await;
    assert_eq!((counts.sent, counts.dead, stats.accepted, stats.duplicates), (3_000, 0, 6_000, 0));
    let refused = world.broadcasts.pause_broadcast(pause).await.unwrap_err();
    assert_eq!(refused.get_error_details().error_info().unwrap().reason, "BROADCAST_FINAL");
    world.stop().await;
}
