//! Promise 1: a broadcast is accepted once, however often it is asked for.

use bongsu_proto::v1::{CreateBroadcastRequest, ListBroadcastsRequest};
use provider_sim::Behaviour;
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::world::{World, to_everyone};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_who_presses_again_gets_the_same_broadcast_and_nobody_is_called_twice() {
    let mut world = World::with_sender(Behaviour::default()).await;
    world.import_good(200).await;
    let presses = (0..10).map(|_| {
        let mut client = world.broadcasts.clone();
        tokio::spawn(async move { client.create_broadcast(to_everyone("once")).await.unwrap().into_inner() })
    });
    let presses: Vec<_> = presses.collect();
    let (mut ids, mut fresh) = (vec![], 0);
    for press in presses {
        let answer = press.await.unwrap();
        ids.push(answer.broadcast.unwrap().id);
        fresh += usize::from(!answer.replayed);
    }
    ids.dedup();
    assert_eq!((ids.len(), fresh), (1, 1));
    world.finish(ids[0]).await;
    let late = world.broadcasts.create_broadcast(to_everyone("once")).await.unwrap().into_inner();
    assert!(late.replayed, "after its end too");
    assert_eq!(world.sim.stats().await.calls, 200);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_with_another_text_is_refused_and_changes_nothing() {
    let mut world = World::new(Behaviour::default()).await;
    let first = world.broadcast("k").await;
    let other = CreateBroadcastRequest { body: "다른 글".into(), ..to_everyone("k") };
    let refused = world.broadcasts.create_broadcast(other).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists);
    let info = refused.get_error_details().error_info().unwrap().clone();
    assert_eq!((info.reason.as_str(), info.domain.as_str()), ("IDEMPOTENCY_KEY_REUSED", "bongsu"));
    let all = world.broadcasts.list_broadcasts(ListBroadcastsRequest::default()).await.unwrap().into_inner();
    assert_eq!(all.broadcasts.len(), 1);
    assert_eq!((all.broadcasts[0].id, &all.broadcasts[0].body), (first.id, &first.body));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broadcast_accepted_while_no_sender_lives_is_sent_when_one_comes() {
    let mut world = World::with_sender(Behaviour::default()).await;
    world.import_good(10).await;
    world.take_sender().stop().await;
    let id = world.broadcast("k").await.id;
    world.add_sender(crate::world::quick).await;
    assert_eq!(world.finish(id).await.counts.unwrap().sent, 10);
    world.stop().await;
}
