//! Promise 5: one bad device never delays another; dead letters are kept with their cause.

use bongsu_proto::v1::{DeadReason, ListDeadLettersRequest, ListDeliveriesRequest};
use provider_sim::Behaviour;
use serde_json::json;

use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_devices_become_dead_letters_with_their_cause_and_all_others_are_sent() {
    // So few that no good device fails four times by chance.
    let mut world = World::with_sender(Behaviour { transient: 0.02, seed: 7, ..Default::default() }).await;
    let tokens =
        ["expired", "failing", "rejected", "good"].map(|kind| (0..25).map(move |i| format!("{kind}-{i}")));
    world.import(tokens.into_iter().flatten()).await;
    let id = world.broadcast("k").await.id;
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!(
        (counts.total, counts.dead_unregistered, counts.dead_attempts_exhausted, counts.dead_rejected),
        (100, 25, 25, 25),
        "{counts:?}"
    );
    assert_eq!(counts.sent, 25);

    let mut deliveries = world.deliveries().await;
    let mut list = async |reasons: Vec<i32>, code: &str| {
        let request =
            ListDeadLettersRequest { broadcast_id: id, reasons, code: code.into(), ..Default::default() };
        deliveries.list_dead_letters(request).await.unwrap().into_inner().dead_letters
    };
    assert_eq!(list(vec![], "").await.len(), 75);
    let exhausted = list(vec![DeadReason::AttemptsExhausted.into()], "").await;
    assert_eq!(exhausted.len(), 25);
    assert!(
        exhausted.iter().all(|l| l.attempts == 4 && l.code == "503" && l.user_id.starts_with("failing-"))
    );
    let rejected = list(vec![], "400").await;
    assert!(rejected.iter().all(|l| l.attempts == 1 && !l.detail.is_empty()), "{rejected:?}");
    assert_eq!(rejected.len(), 25);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn good_devices_do_not_wait_for_those_that_fail() {
    let mut world = World::new(Behaviour::default()).await;
    // Those that fail are tried again in ten minutes; good ones must not wait for that.
    world.add_sender(|config| config.retry_initial_ms = 600_000).await;
    world.import((0..500).map(|i| format!("{}-{i}", if i % 5 == 0 { "failing" } else { "good" }))).await;
    let id = world.broadcast("k").await.id;
    world.sim.accepted(400).await;
    let status = world
        .deliveries()
        .await
        .get_status(bongsu_proto::v1::GetStatusRequest { broadcast_id: id })
        .await
        .unwrap()
        .into_inner()
        .status
        .unwrap();
    let counts = status.counts.unwrap();
    assert_eq!(counts.dead, 0, "the failing ones are still being tried: {counts:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_says_slow_down_is_left_alone_and_nothing_is_charged() {
    let mut world = World::with_sender(Behaviour { throttle_times: 6, ..Default::default() }).await;
    world.sim.behave(json!({"retry_after_s": 0})).await;
    world.import((0..20).map(|i| format!("throttled-{i}"))).await;
    let id = world.broadcast("k").await.id;
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead), (20, 0), "six times 429 is more than four attempts: {counts:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_are_listed_with_state_attempts_and_code() {
    let mut world = World::with_sender(Behaviour::default()).await;
    world.import(["good-1", "failing-1", "expired-1"]).await;
    let id = world.broadcast("k").await.id;
    world.finish(id).await;
    let request = ListDeliveriesRequest { broadcast_id: id, page_size: 2, ..Default::default() };
    let mut deliveries = world.deliveries().await;
    let first = deliveries.list_deliveries(request.clone()).await.unwrap().into_inner();
    assert_eq!(first.deliveries.len(), 2);
    let second = deliveries
        .list_deliveries(ListDeliveriesRequest { page_token: first.next_page_token, ..request })
        .await
        .unwrap()
        .into_inner();
    assert_eq!((second.deliveries.len(), second.next_page_token.as_str()), (1, ""));
    let mut seen: Vec<_> = first
        .deliveries
        .iter()
        .chain(&second.deliveries)
        .map(|d| (d.user_id.as_str(), d.attempts, d.last_code.as_str()))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [("expired-1", 1, "410"), ("failing-1", 4, "503"), ("good-1", 1, "")]);
    world.stop().await;
}
