//! The same promises while the network to Postgres fails: connections that stall, break, or are never answered again.

use std::time::Duration;

use bongsu_store::testing::Saboteur;
use provider_sim::Behaviour;

use crate::failing_database::{
    PrivatePostgres, check_patience, ends_whole, everybody_says, intake_asks_for_patience, to_user, under_way,
};
use crate::world::{World, quick, until};

/// Of the sender that is cut off alone: calls that may be made again.
const UNRECORDED: u32 = 100;
/// A call that takes longer hangs.
const CALL_ENDS_WITHIN: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_stalls_delays_everything_and_repeats_nothing() {
    let postgres = PrivatePostgres::start(&[]).await;
    let (network, url) = postgres.over_tcp().await;
    let (mut world, id) = under_way(url).await;
    network.stall(true);
    everybody_says(&world, false).await;
    intake_asks_for_patience(&mut world).await;
    network.stall(false);
    ends_whole(world, id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_reset_are_opened_again() {
    let postgres = PrivatePostgres::start(&[]).await;
    let (network, url) = postgres.over_tcp().await;
    let (world, id) = under_way(url).await;
    for accepted in [400, 700, 1_000, 1_300] {
        network.reset();
        world.sim.accepted(accepted).await;
    }
    ends_whole(world, id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_accepted_and_never_answered_are_given_up() {
    let postgres = PrivatePostgres::start(&[]).await;
    let (network, url) = postgres.over_tcp().await;
    let (mut world, id) = under_way(url).await;
    network.mute_new(true);
    network.reset();
    everybody_says(&world, false).await;
    intake_asks_for_patience(&mut world).await;
    // Those that were opened meanwhile stay as they are.
    network.mute_new(false);
    ends_whole(world, id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_whose_answer_is_lost_on_the_way_end_and_their_connections_are_replaced() {
    let postgres = PrivatePostgres::start(&[]).await;
    let mut inside = Saboteur::connect(&postgres.url).await;
    let mut onlooker = Saboteur::connect(&postgres.url).await;
    let (network, url) = postgres.over_tcp().await;
    let (world, id) = under_way(url).await;
    // Every connection of the intake is waiting for an answer when answers stop to arrive.
    inside.hold("LOCK TABLE broadcast IN ACCESS EXCLUSIVE MODE").await;
    let keys = (0..intake_connections() + 4).map(|n| format!("lost-{n}"));
    let calls: Vec<_> = keys
        .map(|key| {
            let mut client = world.broadcasts.clone();
            tokio::spawn(async move { client.create_broadcast(to_user(&key, "nobody")).await })
        })
        .collect();
    // Those of the pool, and the one for sweeps.
    until("all wait", async || onlooker.waiting("bongsu-intake").await.len() > intake_connections()).await;
    network.mute_open();
    inside.release().await;
    for call in calls {
        let ended = tokio::time::timeout(CALL_ENDS_WITHIN, call).await.expect("a call ends").unwrap();
        if let Err(refused) = ended {
            check_patience(&refused);
        }
    }
    // They do not keep their places in the pool, but for one or another that the pool itself was opening.
    until("they are replaced", async || network.mute() < intake_connections() / 2).await;
    ends_whole(world, id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_cut_off_alone_is_replaced_after_its_lease_and_works_again_when_it_is_back() {
    let postgres = PrivatePostgres::start(&[]).await;
    let (network, url) = postgres.over_tcp().await;
    let mut world = World::at(postgres.url.clone(), Behaviour { latency_ms: 40, ..Default::default() }).await;
    let short = |config: &mut sender_svc::Config| {
        quick(config);
        (config.lease_ms, config.call_timeout_ms) = (3_000, 500);
        (config.in_flight, config.unrecorded) = (20, Some(UNRECORDED));
    };
    world.add_sender(short).await;
    world
        .add_sender(|config| {
            short(config);
            config.database_url = url.parse().ok();
        })
        .await;
    world.import_good(2_000).await;
    let id = world.broadcast("first").await.id;
    world.sim.accepted(300).await;
    // Postgres keeps its session, so that only the end of the lease frees its work.
    network.stall(true);
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead), (2_000, 0));
    network.stall(false);
    everybody_says(&world, true).await;

    let next = world.broadcast("next").await.id;
    assert_eq!(world.finish(next).await.counts.unwrap().sent, 2_000);
    assert_eq!(world.finish(id).await.counts.unwrap(), counts, "what it had in hand changed nothing");
    let stats = world.sim.stats().await;
    assert_eq!(stats.accepted, 4_000);
    assert!(stats.duplicates <= UNRECORDED.into(), "at most those not recorded: {}", stats.duplicates);
    world.stop().await;
}

/// As many as the intake opens at most.
fn intake_connections() -> usize {
    intake_svc::Config::at_database("postgres://localhost/bongsu").database_connections as usize
}
