//! Load beyond capacity is refused early and clearly, never by memory, and loses nothing that was accepted.

use std::collections::BTreeSet;

use bongsu_proto::v1::broadcast_service_client::BroadcastServiceClient;
use bongsu_proto::v1::delivery_service_client::DeliveryServiceClient;
use bongsu_proto::v1::{
    BroadcastState, CancelBroadcastRequest, GetStatusRequest, PauseBroadcastRequest, StreamStatusRequest,
    StreamStatusResponse,
};
use bongsu_store::{BroadcastFilter, ProviderKind, Store};
use provider_sim::Behaviour;
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

use crate::processes::Processes;
use crate::world::{World, quick, to_everyone, until};

const CALLS: usize = 10_000;
/// As many clients as an operator would never have.
const CONNECTIONS: usize = 50;
/// What an intake may need at most, whatever comes in.
const MOST_MEMORY_KB: u64 = 400_000;
/// Status streams that a sender serves at a time, and the connections they come by.
const STREAMS: usize = 2_000;
const STREAM_CONNECTIONS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_calls_at_once_are_answered_or_refused_and_none_that_was_accepted_is_lost() {
    let world = Processes::start(&[]).await;
    let store = Store::new(world.stack.database_url(), 2, "test").unwrap();
    store.register_provider("push", ProviderKind::Webhook).await.unwrap();
    let mut channels = vec![];
    for _ in 0..CONNECTIONS {
        channels.push(Channel::from_shared(world.stack.intake.url()).unwrap().connect().await.unwrap());
    }
    let mut calls = JoinSet::new();
    for n in 0..CALLS {
        let mut client = BroadcastServiceClient::new(channels[n % CONNECTIONS].clone());
        calls.spawn(async move { (n, client.create_broadcast(to_everyone(&format!("key-{n}"))).await) });
    }
    let (mut accepted, mut refused) = (BTreeSet::new(), 0);
    while let Some(call) = calls.join_next().await {
        match call.unwrap() {
            (n, Ok(answer)) => {
                assert!(!answer.get_ref().replayed, "each has a key of its own");
                accepted.insert((n, answer.into_inner().broadcast.unwrap().id));
            }
            (_, Err(status)) => {
                let details = status.get_error_details();
                let reason = details.error_info().map(|info| info.reason.as_str());
                assert!(
                    matches!(
                        (status.code(), reason),
                        (Code::ResourceExhausted, Some("OVERLOADED"))
                            | (Code::Unavailable, Some("DATABASE_UNAVAILABLE"))
                    ),
                    "{status:?}"
                );
                assert!(details.retry_info().is_some(), "it says when to ask again: {status:?}");
                refused += 1;
            }
        }
    }
    assert_eq!(accepted.len() + refused, CALLS);
    assert!(!accepted.is_empty());
    // What was accepted is stored; what was refused for want of room is not.
    let filter = BroadcastFilter { limit: 2 * CALLS as i64, ..Default::default() };
    let stored: BTreeSet<_> = store
        .list_broadcasts(&filter)
        .await
        .unwrap()
        .into_iter()
        .map(|b| (b.idempotency_key.trim_start_matches("key-").parse::<usize>().unwrap(), b.id.0))
        .collect();
    assert!(accepted.is_subset(&stored), "an accepted one is missing");
    let memory = peak_memory_kb(world.stack.intake.pid().unwrap());
    assert!(memory < MOST_MEMORY_KB, "{memory} kB at the peak");
    // Whoever asks again is answered.
    let mut client = BroadcastServiceClient::new(channels.remove(0));
    let (n, id) = *accepted.first().unwrap();
    let again = client.create_broadcast(to_everyone(&format!("key-{n}"))).await.unwrap().into_inner();
    assert_eq!((again.replayed, again.broadcast.unwrap().id), (true, id));
    world.stack.stop(vec![]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_status_streams_are_served_and_one_more_is_told_where_to_ask() {
    let mut world = World::new(Behaviour::default()).await;
    world.store().register_provider("push", ProviderKind::Webhook).await.unwrap();
    world.import_good(1).await;
    let id = world.broadcast("k").await.id;
    // Before there is a sender, so that the broadcast does not end meanwhile.
    world.broadcasts.pause_broadcast(PauseBroadcastRequest { broadcast_id: id }).await.unwrap();
    world.add_sender(quick).await;
    // Several connections: one carries a thousand at most.
    let mut clients = vec![];
    for _ in 0..STREAM_CONNECTIONS {
        clients.push(world.deliveries().await);
    }
    let mut streams = vec![];
    for n in 0..STREAMS {
        streams.push(watch(&mut clients[n % STREAM_CONNECTIONS], id).await.unwrap());
    }

    let mut other = world.deliveries().await;
    let refused = watch(&mut other, id).await.unwrap_err();
    let details = refused.get_error_details();
    let reason = details.error_info().map(|info| info.reason.as_str());
    assert_eq!((refused.code(), reason), (Code::ResourceExhausted, Some("TOO_MANY_WATCHERS")), "{refused:?}");
    assert!(details.retry_info().is_some_and(|retry| retry.retry_delay.is_some()), "{refused:?}");
    for told in ["2000 status streams", "ask another one", "GetStatus"] {
        assert!(refused.message().contains(told), "{refused:?}");
    }
    // As it was told.
    other.get_status(GetStatusRequest { broadcast_id: id }).await.unwrap();

    streams.swap_remove(STREAMS / 2);
    until("the place is free", async || match watch(&mut other, id).await {
        Ok(stream) => {
            streams.push(stream);
            true
        }
        Err(status) => {
            assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
            false
        }
    })
    .await;
    let refused = watch(&mut other, id).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "there was one place: {refused:?}");

    world.broadcasts.cancel_broadcast(CancelBroadcastRequest { broadcast_id: id }).await.unwrap();
    for stream in &mut streams {
        let mut last = None;
        while let Some(message) = stream.message().await.unwrap() {
            last = message.status;
        }
        assert_eq!(last.unwrap().state(), BroadcastState::Cancelled);
    }
    world.stop().await;
}

/// A stream that is served: its first status has come.
async fn watch(
    client: &mut DeliveryServiceClient<Channel>,
    broadcast_id: i64,
) -> Result<Streaming<StreamStatusResponse>, Status> {
    let mut stream = client.stream_status(StreamStatusRequest { broadcast_id }).await?.into_inner();
    let first = stream.message().await?.and_then(|message| message.status).unwrap();
    assert!(first.paused, "{first:?}");
    Ok(stream)
}

fn peak_memory_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
