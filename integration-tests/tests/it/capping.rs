//! A broadcast's own rate: in no second do all senders together begin more calls of it, retries included; where there is enough to
//! do at least 90 % of it is used; and what else there is to send does not notice.

use std::time::Duration;

use bongsu_proto::v1::{
    CancelBroadcastRequest, CreateBroadcastRequest, PauseBroadcastRequest, ResumeBroadcastRequest,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::pacing::measured;
use crate::processes::{Processes, sender};
use crate::world::{World, quick, to_everyone, until};

fn capped(key: &str, max_rate_per_second: i32) -> CreateBroadcastRequest {
    CreateBroadcastRequest { max_rate_per_second, ..to_everyone(key) }
}

/// When each delivery of the broadcast was accepted, in microseconds, and its key; in this order.
async fn acceptances(world: &Processes, id: i64) -> Vec<(u64, String)> {
    let prefix = format!("{id}-");
    let mut all: Vec<_> = world
        .deliveries()
        .await
        .into_iter()
        .filter(|record| record.key.starts_with(&prefix))
        .filter_map(|record| Some((record.first_accepted_unix_us?, record.key)))
        .collect();
    all.sort_unstable();
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_senders_never_exceed_a_broadcasts_rate_in_any_second_and_use_it() {
    let mut world = Processes::start(&["--latency-ms", "20", "--jitter-ms", "10"]).await;
    let senders = [world.stack.spawn_sender(sender(&[])).await, world.stack.spawn_sender(sender(&[])).await];
    world.import_good(1_600).await;
    let id = world.create(capped("k", 200)).await;
    let broadcast = world.finish(id).await;
    assert_eq!((broadcast.max_rate_per_second, broadcast.counts.unwrap().sent), (200, 1_600));
    let (most, used) = measured(&acceptances(&world, id).await, 200);
    eprintln!("at most {most} in a second, {:.1} % used", used * 100.0);
    assert!(most <= 200, "{most} in a second");
    assert!(used >= 0.9, "{used}");
    world.stack.stop(senders.into_iter().map(Result::unwrap).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_sender_an_outage_and_a_pause_are_never_followed_by_more_than_the_rate() {
    let mut world = Processes::start(&["--latency-ms", "20"]).await;
    let mut victim = world.stack.spawn_sender(sender(&[])).await.unwrap();
    let survivor = world.stack.spawn_sender(sender(&[])).await.unwrap();
    world.import_good(1_200).await;
    let id = world.create(capped("k", 150)).await;
    world.accepted(150).await;
    victim.kill9().await.unwrap();
    world.accepted(400).await;
    world.broadcasts.pause_broadcast(PauseBroadcastRequest { broadcast_id: id }).await.unwrap();
    // Long enough for slots to pass; what matters is what comes after.
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.broadcasts.resume_broadcast(ResumeBroadcastRequest { broadcast_id: id }).await.unwrap();
    world.accepted(600).await;
    world.behave(serde_json::json!({ "outage": true })).await;
    let before = world.stats().await.outage;
    until("calls fail", async || world.stats().await.outage > before + 20).await;
    world.behave(serde_json::json!({ "outage": false })).await;
    assert_eq!(world.finish(id).await.counts.unwrap().sent, 1_200);
    let (most, _) = measured(&acceptances(&world, id).await, 150);
    eprintln!("at most {most} in a second");
    assert!(most <= 150, "{most} in a second");
    world.stack.stop(vec![survivor]).await;
}

/// Asks the simulator all the time how many calls it has had, until `done`. Returns the most of them in any second.
async fn most_calls_in_a_second(world: &World, mut done: oneshot::Receiver<()>) -> u64 {
    let mut looks: Vec<(Instant, Instant, u64)> = vec![];
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    while done.try_recv().is_err() {
        ticks.tick().await;
        let asked = Instant::now();
        let calls = world.sim.stats().await.calls;
        looks.push((asked, Instant::now(), calls));
    }
    let mut most = 0;
    for (n, (asked, _, before)) in looks.iter().enumerate() {
        // What was counted between two looks was called between the beginning of the first and the end of the second.
        let within = looks[n..].iter().take_while(|look| look.1 - *asked <= Duration::from_secs(1));
        most = within.map(|look| look.2 - before).max().unwrap_or(0).max(most);
    }
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_are_called_within_the_rate_too() {
    let behaviour = provider_sim::Behaviour { transient: 0.4, ..Default::default() };
    let mut world = World::with_sender(behaviour).await;
    world.add_sender(quick).await;
    world.import_good(500).await;
    let broadcast = world.create(capped("k", 100)).await;
    let (end, done) = oneshot::channel();
    let (status, most) = tokio::join!(
        async {
            let status = world.finish(broadcast.id).await;
            let _ = end.send(());
            status
        },
        most_calls_in_a_second(&world, done)
    );
    let counts = status.counts.unwrap();
    eprintln!("at most {most} calls in a second, {} of them again", counts.retried);
    assert!(counts.retried > 50 && counts.sent + counts.dead == 500, "{counts:?}");
    assert!(most <= 100 && most > 50, "{most} calls in a second");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_a_slow_one_another_broadcast_is_sent_as_if_it_were_alone_and_little_of_the_slow_one_is_leased()
 {
    let mut world = World::with_sender(provider_sim::Behaviour::default()).await;
    world.import_good(3_000).await;
    let slow = world.create(capped("slow", 10)).await;
    world.sim.accepted(5).await;
    let other = world.broadcast("other").await;
    let began = Instant::now();
    assert_eq!(world.finish(other.id).await.counts.unwrap().sent, 3_000);
    eprintln!("the other took {:?}", began.elapsed());
    // At the rate of the slow one it would take five minutes.
    assert!(began.elapsed() < Duration::from_secs(60));
    // What is left is of the slow one alone: half a second of it and another half, a few deliveries each.
    let leased: i64 = world.store().senders().await.unwrap().iter().map(|sender| sender.batches).sum();
    assert!(leased <= 12, "{leased} batches");
    let cancel = CancelBroadcastRequest { broadcast_id: slow.id };
    world.broadcasts.cancel_broadcast(cancel).await.unwrap();
    world.finish(slow.id).await;
    world.stop().await;
}
