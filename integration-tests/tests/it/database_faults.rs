//! Promises 1, 3 and 4 while Postgres fails: a broadcast under way waits and goes on by itself, nothing is lost, and as
//! no sender died, nothing is called twice.

use std::collections::BTreeSet;
use std::time::Duration;

use bongsu_ops::local_postgres::{LocalPostgres, Shutdown};
use bongsu_store::testing::{Saboteur, fresh_database};
use rustix::process::{Pid, Signal, kill_process};

use crate::failing_database::{
    PrivatePostgres, about_to_begin, about_to_begin_with, ends_whole, everybody_says,
    intake_asks_for_patience, under_way,
};
use crate::world::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broadcast_goes_on_after_postgres_restarts_and_after_it_crashes() {
    let postgres = PrivatePostgres::start(&[]).await;
    let (world, id) = under_way(postgres.url.clone()).await;
    postgres.does(|server| server.restart_server(Shutdown::Fast)).await;
    world.sim.accepted(800).await;
    postgres.does(|server| server.restart_server(Shutdown::Immediate)).await;
    ends_whole(world, id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_postgres_is_away_everybody_says_so_and_then_all_goes_on() {
    let postgres = PrivatePostgres::start(&[]).await;
    let (mut world, id) = under_way(postgres.url.clone()).await;
    postgres.does(LocalPostgres::stop_server).await;
    everybody_says(&world, false).await;
    intake_asks_for_patience(&mut world).await;
    postgres.does(LocalPostgres::start_server).await;
    ends_whole(world, id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_an_administrator_ends_are_opened_again() {
    let database = fresh_database().await;
    let mut administrator = Saboteur::connect(&database).await;
    let (world, id) = under_way(database).await;
    for accepted in [400, 700, 1_000, 1_300] {
        administrator.end_sessions().await;
        world.sim.accepted(accepted).await;
    }
    ends_whole(world, id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_stands_still_hands_nobodys_work_to_another() {
    stands_still(Duration::ZERO, |_| ()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_stands_still_beyond_every_lease_hands_nobodys_work_to_another_either() {
    stands_still(Duration::from_secs(8), |config| {
        config.call_timeout_ms = 1_000;
        config.lease_ms = 4_000;
    })
    .await;
}

/// Lets Postgres stand still until everybody has noticed, and for so long.
async fn stands_still(length: Duration, configure: fn(&mut sender_svc::Config)) {
    let postgres = PrivatePostgres::start(&[]).await;
    let mut inside = Saboteur::connect(&postgres.url).await;
    let (mut world, request) = about_to_begin_with(postgres.url.clone(), configure).await;
    let id = world.create(request).await.id;
    world.sim.accepted(200).await;
    let signal = |pid: i32, signal| kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    // With the first process stopped no other is added to those that are listed next.
    signal(postgres.postmaster(), Signal::STOP);
    let processes = inside.processes().await;
    processes.iter().for_each(|pid| signal(*pid, Signal::STOP));
    everybody_says(&world, false).await;
    intake_asks_for_patience(&mut world).await;
    // Not waited for: it is how long the fault lasts.
    tokio::time::sleep(length).await;
    processes.iter().chain(&[postgres.postmaster()]).for_each(|pid| signal(*pid, Signal::CONT));
    ends_whole(world, id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_free_connection_everybody_waits_for_one() {
    let postgres = PrivatePostgres::start(&[("max_connections", "40")]).await;
    let mut other = Saboteur::connect(&postgres.url).await;
    let (mut world, id) = under_way(postgres.url.clone()).await;
    let slots = other.take_all_slots().await;
    everybody_says(&world, false).await;
    intake_asks_for_patience(&mut world).await;
    drop(slots);
    ends_whole(world, id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_that_wait_for_a_lock_too_long_are_recorded_later() {
    let database = fresh_database().await;
    let mut other = Saboteur::connect(&database).await;
    let (world, id) = under_way(database.clone()).await;
    other.hold("LOCK TABLE delivery IN EXCLUSIVE MODE").await;
    a_sender_waited_for_too_long(&database).await;
    other.release().await;
    ends_whole(world, id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_on_a_provider_holds_up_neither_heartbeats_nor_calls() {
    let database = fresh_database().await;
    let mut other = Saboteur::connect(&database).await;
    let (mut world, request) = about_to_begin(database.clone()).await;
    // Before the first claim, of which a sender tells in that row; kept to the end.
    other.hold("SELECT FROM provider FOR UPDATE").await;
    let id = world.create(request).await.id;
    ends_whole(world, id).await;
    other.release().await;
}

/// Waits until a statement of a sender gave up waiting for a lock, and the sender tries again.
async fn a_sender_waited_for_too_long(database: &str) {
    let mut onlooker = Saboteur::connect(database).await;
    let mut waited = BTreeSet::new();
    until("a sender waited for too long, and tries again", async || {
        waited.append(&mut onlooker.waiting("bongsu-sender").await);
        // Each of the two waits with one session; a third one comes after a first has given up.
        waited.len() > 2
    })
    .await;
}
