//! Fairness: a small broadcast overtakes a large one, however it came about.

use bongsu_proto::v1::{UserAudience, audience};
use bongsu_store::testing::Saboteur;
use provider_sim::Behaviour;

use crate::world::{World, quick, to};

/// Whoever accepts a list commits when the queue has moved on by 2,000 deliveries of normal weight: a transaction that took long.
const SLOW_ACCEPTANCE: &str = "
    CREATE FUNCTION wait_for_the_queue() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        WHILE (SELECT vtime FROM provider WHERE id = NEW.provider_id) < NEW.rank + 500000 LOOP
            PERFORM pg_sleep(0.02);
        END LOOP;
        RETURN NULL;
    END
    $$;
    CREATE CONSTRAINT TRIGGER slow_acceptance AFTER INSERT ON batch DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.attempt = 1 AND NEW.device_ids IS NOT NULL) EXECUTE FUNCTION wait_for_the_queue()";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_broadcast_whose_acceptance_took_long_does_not_wait_for_the_end_of_a_large_one() {
    let behaviour = Behaviour { latency_ms: 10, ..Behaviour::default() };
    let mut world = World::new(behaviour).await;
    world
        .add_sender(|config| {
            quick(config);
            config.in_flight = 16;
        })
        .await;
    world.import_good(10_000).await;
    Saboteur::connect(&world.database_url).await.run(SLOW_ACCEPTANCE).await;
    world.broadcast("large").await;
    world.sim.accepted(1).await;
    let small = to("small", audience::Kind::Users(UserAudience { user_ids: vec!["good-1".into()] }));
    let small = world.create(small).await.id;
    assert_eq!(world.finish(small).await.counts.unwrap().sent, 1);
    let stats = world.sim.stats().await;
    assert!(stats.accepted < 10_001, "the large one has ended: {stats:?}");
    world.stop().await;
}
