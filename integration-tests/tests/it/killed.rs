//! Promises 3 and 7: what a killed process was doing is done by another, at least once, and the duplicates are bounded by
//! what was in flight or unrecorded.

use bongsu_proto::v1::CreateBroadcastRequest;
use rustix::process::Signal;

use crate::processes::{Processes, metric, sender};
use crate::world::{to_everyone, until};

/// Calls that take long enough for many to be under way when the kill comes.
const SLOW: [&str; 4] = ["--latency-ms", "40", "--jitter-ms", "20"];
/// With a lease of an hour only the known-dead path can bring work back.
const LONG_LEASE: [&str; 6] = ["--lease-ms", "3600000", "--in-flight", "100", "--unrecorded", "200"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_a_killed_sender_resumes_long_before_its_lease_and_repeats_only_what_was_in_flight() {
    let mut world = Processes::start(&SLOW).await;
    let mut victim = world.stack.spawn_sender(sender(&LONG_LEASE)).await.unwrap();
    world.import_good(2_000).await;
    let id = world.create(to_everyone("k")).await;
    world.accepted(500).await;
    victim.kill9().await.unwrap();
    assert!(world.broadcast(id).await.counts.unwrap().sent < 2_000, "killed in the middle");
    let survivor = world.stack.spawn_sender(sender(&LONG_LEASE)).await.unwrap();
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead), (2_000, 0));
    let stats = world.stats().await;
    assert_eq!(stats.accepted, 2_000);
    assert!(stats.duplicates <= 200, "at most --unrecorded: {}", stats.duplicates);
    world.stack.stop(vec![survivor]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_whose_senders_die_one_after_the_other_goes_on_delivery_by_delivery() {
    let mut world = Processes::start(&["--hang"]).await;
    let mut holder = world.stack.spawn_sender(sender(&LONG_LEASE)).await.unwrap();
    world.import_good(20).await;
    let id = world.create(to_everyone("k")).await;
    for nth in 1..=3 {
        until("it calls all of them", async || world.stats().await.hung >= 20 * nth).await;
        if nth == 3 {
            world.behave(serde_json::json!({"hang": false})).await;
        }
        holder.kill9().await.unwrap();
        holder = world.stack.spawn_sender(sender(&LONG_LEASE)).await.unwrap();
    }
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead, counts.retried), (20, 0, 20), "each in a batch of its own");
    let stats = world.stats().await;
    assert_eq!((stats.accepted, stats.duplicates, stats.calls), (20, 0, 80));
    world.stack.stop(vec![holder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_survivor_takes_over_and_a_provider_that_drops_known_keys_sees_no_duplicate() {
    let mut world = Processes::start(&[&SLOW[..], &["--dedupe"]].concat()).await;
    let mut victim = world.stack.spawn_sender(sender(&LONG_LEASE)).await.unwrap();
    let survivor = world.stack.spawn_sender(sender(&LONG_LEASE)).await.unwrap();
    world.import_good(3_000).await;
    let id = world.create(to_everyone("k")).await;
    world.accepted(600).await;
    victim.kill9().await.unwrap();
    assert!(world.broadcast(id).await.counts.unwrap().sent < 3_000, "killed in the middle");
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead), (3_000, 0));
    let stats = world.stats().await;
    assert_eq!((stats.accepted, stats.duplicates), (3_000, 0));
    world.stack.stop(vec![survivor]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_stops_beyond_its_lease_is_replaced_and_its_late_outcomes_change_nothing() {
    let short =
        ["--lease-ms", "3000", "--call-timeout-ms", "500", "--in-flight", "50", "--unrecorded", "100"];
    let mut world = Processes::start(&SLOW).await;
    let frozen = world.stack.spawn_sender(sender(&short)).await.unwrap();
    world.import_good(1_000).await;
    let id = world.create(to_everyone("k")).await;
    world.accepted(200).await;
    // Its session and its lock stay, so only the end of the lease frees its work.
    frozen.signal(Signal::STOP);
    assert!(world.broadcast(id).await.counts.unwrap().sent < 1_000, "stopped in the middle");
    let survivor = world.stack.spawn_sender(sender(&short)).await.unwrap();
    let counts = world.finish(id).await.counts.unwrap();
    assert_eq!((counts.sent, counts.dead), (1_000, 0));
    frozen.signal(Signal::CONT);
    // Awake again, it works like any other.
    let next = world.create(to_everyone("next")).await;
    assert_eq!(world.finish(next).await.counts.unwrap().sent, 1_000);
    let after = world.broadcast(id).await.counts.unwrap();
    assert_eq!(after, counts, "what it had in hand changed nothing");
    let metrics = world.metrics(&frozen).await;
    assert!(metric(&metrics, "bongsu_sender_batches_lost_total") > 0, "{metrics}");
    let dropped = ["outcomes_fenced", "outcomes_stale"]
        .map(|name| metric(&metrics, &format!("bongsu_sender_{name}_total")));
    assert!(dropped.iter().sum::<u64>() > 0, "what it had in flight is counted: {metrics}");
    let stats = world.stats().await;
    assert_eq!(stats.accepted, 2_000);
    assert!(stats.duplicates <= 100, "at most --unrecorded: {}", stats.duplicates);
    world.stack.stop(vec![frozen, survivor]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduled_broadcast_outlives_the_intakes_that_are_killed_before_and_at_its_start_and_starts_once()
{
    let mut world = Processes::start(&[]).await;
    let sender = world.stack.spawn_sender(sender(&[])).await.unwrap();
    world.import_good(2_000).await;
    let at = std::time::SystemTime::now() + std::time::Duration::from_secs(4);
    let schedule_time = Some(prost_types::Timestamp::from(at));
    let request = CreateBroadcastRequest { schedule_time, ..to_everyone("k") };
    let id = bongsu_store::BroadcastId(world.create(request).await);
    world.stack.intake.kill9().await.unwrap();
    let store = bongsu_store::Store::new(world.stack.database_url(), 2, "test").unwrap();
    let state = async || store.broadcast(id).await.unwrap().unwrap().state;
    until("its time has passed", async || std::time::SystemTime::now() > at).await;
    assert_eq!(state().await, bongsu_store::BroadcastState::Scheduled, "nobody was there to start it");
    assert_eq!(world.stats().await.calls, 0);
    // One is killed as soon as it has started it; two others go on, at the same time.
    let mut starts = world.stack.spawn_intake().await.unwrap();
    until("it is started", async || state().await != bongsu_store::BroadcastState::Scheduled).await;
    starts.kill9().await.unwrap();
    let mut rest = vec![sender];
    for _ in 0..2 {
        rest.push(world.stack.spawn_intake().await.unwrap());
    }
    until("completed", async || state().await == bongsu_store::BroadcastState::Completed).await;
    let counts = store.broadcast(id).await.unwrap().unwrap().counts;
    assert_eq!((counts.total, counts.sent), (2_000, 2_000));
    let stats = world.stats().await;
    assert_eq!((stats.calls, stats.accepted, stats.duplicates), (2_000, 2_000, 0));
    assert!(store.broken_invariants().await.unwrap().is_empty());
    world.stack.stop(rest).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intake_killed_while_it_fans_out_repeats_nothing_and_loses_nothing() {
    let mut world = Processes::start(&[]).await;
    // No sender in this one, so nobody has made the provider known.
    let store = bongsu_store::Store::new(world.stack.database_url(), 2, "test").unwrap();
    store.register_provider("push", bongsu_store::ProviderKind::Webhook).await.unwrap();
    world.import_good(300_000).await;
    let id = world.create(to_everyone("k")).await;
    let total = async || store.broadcast(bongsu_store::BroadcastId(id)).await.unwrap().unwrap().counts.total;
    until("the fan-out has begun", async || total().await > 0).await;
    world.stack.intake.kill9().await.unwrap();
    assert!(total().await < 300_000, "killed in the middle");
    // Another process goes on where this one was.
    until("the fan-out has ended", async || {
        store.fan_out_page().await.unwrap() == bongsu_store::FanOut::Idle
            && store.broadcast(bongsu_store::BroadcastId(id)).await.unwrap().unwrap().state
                == bongsu_store::BroadcastState::Delivering
    })
    .await;
    assert_eq!(total().await, 300_000);
    world.stack.stop(vec![]).await;
}
