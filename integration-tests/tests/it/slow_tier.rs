//! What used up its attempts is tried again by itself, in rounds, each made once by whichever sender looks first.

use std::time::Duration;

use bongsu_proto::v1::{Broadcast, BroadcastState, BroadcastStatus, ListBroadcastsRequest, audience_summary};
use bongsu_store::ProviderKind;
use provider_sim::Behaviour;
use serde_json::json;

use crate::world::{World, until};

const OFF: &str = "never_park = true";
const TWO_ROUNDS: &str = "never_park = true\nslow_tier = { every_ms = 200, rounds = 2 }";
/// Attempts of a delivery.
const ATTEMPTS: u32 = 4;

/// Oldest first.
async fn broadcasts(world: &World) -> Vec<Broadcast> {
    let mut client = world.broadcasts.clone();
    let answer = client.list_broadcasts(ListBroadcastsRequest::default()).await.unwrap().into_inner();
    answer.broadcasts.into_iter().rev().collect()
}

fn sent_and_dead(status: &BroadcastStatus) -> (i64, i64) {
    let counts = status.counts.unwrap();
    (counts.sent, counts.dead_attempts_exhausted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_senders_make_each_round_once_and_what_works_again_is_reached() {
    let mut world = World::new(Behaviour { status: Some(503), ..Default::default() }).await;
    world.add_sender_told(OFF).await;
    world.import_good(10).await;
    world.import((0..5).map(|i| format!("failing-{i}"))).await;
    let id = world.broadcast("k").await.id;
    assert_eq!(sent_and_dead(&world.finish(id).await), (0, 15));
    world.sim.behave(json!({"status": null})).await;
    assert_eq!(broadcasts(&world).await.len(), 1, "off by default");

    // Neither of them was there when it died.
    world.add_sender_told(TWO_ROUNDS).await;
    world.add_sender_told(TWO_ROUNDS).await;
    until("both rounds have ended", async || {
        let all = broadcasts(&world).await;
        all.len() >= 3 && all.iter().all(|b| b.state() == BroadcastState::Completed)
    })
    .await;
    let store = world.store();
    let provider = store.register_provider("push", ProviderKind::Webhook).await.unwrap().unwrap();
    let more = store.make_slow_rounds(provider, Duration::ZERO, 2).await.unwrap();
    assert_eq!(more.made, [], "two were asked for");

    let all = broadcasts(&world).await;
    let keys: Vec<_> = all.iter().map(|b| b.idempotency_key.clone()).collect();
    let round = |nth: u32| format!("slow:{id}:{nth}:{}", provider.0);
    assert_eq!(keys, ["k".to_owned(), round(1), round(2)]);
    for (round, before) in all[1..].iter().zip(&all) {
        let kind = round.audience.as_ref().unwrap().kind.clone();
        assert_eq!(kind, Some(audience_summary::Kind::ReplayOf(before.id)));
        assert_eq!(round.expire_time, all[0].expire_time);
    }
    assert_eq!(sent_and_dead(&world.finish(all[1].id).await), (10, 5));
    assert_eq!(sent_and_dead(&world.finish(all[2].id).await), (0, 5));
    let stats = world.sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates), (10, 0));
    let calls = 15 * ATTEMPTS + (10 + 5 * ATTEMPTS) + 5 * ATTEMPTS;
    assert_eq!((stats.calls, world.sim.keys().await.len()), (calls.into(), 15), "as one notification each");
    assert_eq!(store.broken_invariants().await.unwrap(), []);
    world.stop().await;
}
