//! Promise 3, on request: what was in flight ends unconfirmed, and is never called again by itself.

use bongsu_proto::v1::{
    CreateBroadcastRequest, DeadReason, Guarantee, ListDeadLettersRequest, ReplayDeadLettersRequest,
    UserAudience, audience,
};
use provider_sim::Behaviour;
use serde_json::json;

use crate::processes::{Processes, sender};
use crate::world::{World, quick, to, to_everyone};

fn at_most_once(request: CreateBroadcastRequest) -> CreateBroadcastRequest {
    CreateBroadcastRequest { guarantee: Guarantee::AtMostOnce.into(), ..request }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_sender_leaves_no_duplicate_and_says_of_which_deliveries_it_does_not_know() {
    let mut world = Processes::start(&["--latency-ms", "40", "--jitter-ms", "20"]).await;
    let args = ["--lease-ms", "3600000", "--in-flight", "100", "--unrecorded", "200"];
    let mut victim = world.stack.spawn_sender(sender(&args)).await.unwrap();
    world.import_good(2_000).await;
    let id = world.create(at_most_once(to_everyone("k"))).await;
    world.accepted(500).await;
    victim.kill9().await.unwrap();
    let survivor = world.stack.spawn_sender(sender(&args)).await.unwrap();
    let counts = world.finish(id).await.counts.unwrap();
    let stats = world.stats().await;
    assert_eq!((counts.sent + counts.unconfirmed, counts.dead), (2_000, 0), "{counts:?}");
    assert!((1..=200).contains(&counts.unconfirmed), "what was noted and not recorded: {counts:?}");
    assert_eq!(stats.duplicates, 0);
    assert!(i64::try_from(stats.accepted).unwrap() >= counts.sent, "{stats:?} {counts:?}");
    world.stack.stop(vec![survivor]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_call_is_tried_again_and_only_one_without_an_answer_is_not_unless_a_replay_asks_for_it() {
    let mut world = World::new(Behaviour { transient: 0.3, seed: 5, ..Default::default() }).await;
    world
        .add_sender(|config| {
            quick(config);
            config.call_timeout_ms = 200;
        })
        .await;
    world.import_good(200).await;
    let first = world.create(at_most_once(to_everyone("first"))).await.id;
    let counts = world.finish(first).await.counts.unwrap();
    assert_eq!(counts.sent + counts.dead, 200, "a 503 says that it was not accepted: {counts:?}");
    assert!(counts.retried > 0 && counts.unconfirmed == 0, "{counts:?}");

    world.sim.behave(json!({"hang": true, "transient": 0.0})).await;
    let calls = world.sim.stats().await.calls;
    let one_user = audience::Kind::Users(UserAudience { user_ids: vec!["good-1".into()] });
    let second = world.create(at_most_once(to("second", one_user))).await.id;
    let counts = world.finish(second).await.counts.unwrap();
    assert_eq!((counts.unconfirmed, counts.sent), (1, 0), "{counts:?}");
    assert_eq!(world.sim.stats().await.calls, calls + 1);
    let mut deliveries = world.deliveries().await;
    let request = ListDeadLettersRequest { broadcast_id: second, ..Default::default() };
    let letters = deliveries.list_dead_letters(request).await.unwrap().into_inner().dead_letters;
    assert_eq!((letters[0].reason(), letters[0].code.as_str()), (DeadReason::Unconfirmed, "timeout"));

    world.sim.behave(json!({"hang": false})).await;
    let dry = ReplayDeadLettersRequest {
        replay_id: "all but".into(),
        broadcast_id: second,
        validate_only: true,
        ..Default::default()
    };
    assert_eq!(deliveries.replay_dead_letters(dry.clone()).await.unwrap().into_inner().matching, 0);
    let reasons = vec![DeadReason::Unconfirmed.into()];
    let chosen = ReplayDeadLettersRequest { reasons, validate_only: false, ..dry };
    let child = deliveries.replay_dead_letters(chosen).await.unwrap().into_inner().broadcast_id;
    assert_eq!(world.finish(child).await.counts.unwrap().sent, 1);
    world.stop().await;
}
