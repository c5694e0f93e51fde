//! A provider that has become slow is sent what it can take, and no more.

use provider_sim::Behaviour;
use serde_json::json;

use bongsu_proto::v1::{DeliveryCounts, GetStatusRequest};

use crate::world::{World, quick, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_works_off_less_than_it_is_sent_is_sent_less_and_then_all_is_answered_in_time() {
    const DEVICES: usize = 40_000;
    // All 512 calls that may be under way would be answered after 1.3 s, so none of them in time.
    let mut world = World::new(Behaviour { capacity_per_s: 400, ..Default::default() }).await;
    world
        .add_sender(|config| {
            quick(config);
            config.call_timeout_ms = 1_000;
            // An outage is another test's.
            config.never_park = true;
            config.max_attempts = 10;
        })
        .await;
    world.import_good(DEVICES).await;
    let id = world.broadcast("slow").await.id;
    // It takes a while until it is found how many may be under way.
    world.sim.accepted(1_000).await;
    until("few calls under way", async || world.sim.stats().await.open < 250).await;
    // And another while until the provider has worked off what it was sent too much of.
    let mut in_vain = vec![];
    loop {
        let before = counts(&world, id).await;
        world.sim.accepted(world.sim.stats().await.accepted + 500).await;
        let after = counts(&world, id).await;
        let (sent, retried) = (after.sent - before.sent, after.retried - before.retried);
        if sent > 0 && retried <= sent / 5 {
            break;
        }
        in_vain.push((retried, sent));
        assert!(in_vain.len() < 50, "attempts in vain, and deliveries: {in_vain:?}");
    }
    // Nobody waits for the rest.
    world.sim.behave(json!({"capacity_per_s": 0})).await;
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead), (DEVICES as i64, 0), "{counts:?}");
    world.stop().await;
}

async fn counts(world: &World, id: i64) -> DeliveryCounts {
    let request = GetStatusRequest { broadcast_id: id };
    world.deliveries().await.get_status(request).await.unwrap().into_inner().status.unwrap().counts.unwrap()
}
