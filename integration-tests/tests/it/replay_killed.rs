//! Promises 3 and 5: a replay whose sender is killed in the middle, and which is asked for again, calls each device at most once
//! more.

use bongsu_cli::stack::Process;
use bongsu_proto::v1::delivery_service_client::DeliveryServiceClient;
use bongsu_proto::v1::{
    ListDeadLettersRequest, ReplayDeadLettersRequest, ReplayDeadLettersResponse, ReplayExclusions,
};
use provider_sim::{DeliveryRecord, Stats};
use serde_json::json;
use tonic::transport::Channel;

use crate::processes::{Processes, sender};
use crate::world::to_everyone;

const DEVICES: usize = 10_000;
/// Calls that take long enough for many to be under way when the kill comes; each is refused until told otherwise.
const SLOW: [&str; 6] = ["--latency-ms", "40", "--jitter-ms", "20", "--status", "422"];
/// With a lease of an hour only the known-dead path can bring work back.
const LONG_LEASE: [&str; 6] = ["--lease-ms", "3600000", "--in-flight", "200", "--unrecorded", "400"];
/// What a kill may have called again: `--unrecorded`.
const MOST_REPEATED: u64 = 400;

async fn deliveries(process: &Process) -> DeliveryServiceClient<Channel> {
    DeliveryServiceClient::connect(process.url()).await.unwrap()
}

fn replay(broadcast_id: i64, validate_only: bool) -> ReplayDeadLettersRequest {
    ReplayDeadLettersRequest { replay_id: "again".into(), broadcast_id, validate_only, ..Default::default() }
}

async fn ask(process: &Process, request: ReplayDeadLettersRequest) -> ReplayDeadLettersResponse {
    deliveries(process).await.replay_dead_letters(request).await.unwrap().into_inner()
}

/// Replays as many dead letters as there are devices, kills the sender that answered once the provider has accepted so many, asks
/// another one again, and returns what the provider saw when all had ended.
async fn interrupted(dedupe: bool, accepted: u64) -> (Stats, Vec<DeliveryRecord>) {
    let mut world = Processes::start(&SLOW).await;
    let mut victim = world.stack.spawn_sender(sender(&LONG_LEASE)).await.unwrap();
    let survivor = world.stack.spawn_sender(sender(&LONG_LEASE)).await.unwrap();
    world.import_good(DEVICES).await;
    let id = world.create(to_everyone("k")).await;
    let devices = i64::try_from(DEVICES).unwrap();
    let original = world.finish(id).await.counts.unwrap();
    assert_eq!(original.dead_rejected, devices);
    world.behave(json!({"status": null, "dedupe": dedupe})).await;

    let first = ask(&victim, replay(id, false)).await;
    world.accepted(accepted).await;
    victim.kill9().await.unwrap();
    if accepted > 0 {
        assert!(world.broadcast(first.broadcast_id).await.counts.unwrap().sent < devices, "in the middle");
    }
    let again = ask(&survivor, replay(id, false)).await;
    assert_eq!((first.replayed, again.replayed, again.broadcast_id), (false, true, first.broadcast_id));
    let counts = world.finish(first.broadcast_id).await.counts.unwrap();
    assert_eq!((counts.total, counts.sent, counts.retried), (devices, devices, 0));
    assert_eq!(world.broadcast(id).await.counts.unwrap(), original, "the original is what it was");

    let dry = ask(&survivor, replay(id, true)).await;
    let all = ReplayExclusions { taken_up: devices, ..Default::default() };
    assert_eq!((dry.matching, dry.excluded), (0, Some(all)));
    let request = ListDeadLettersRequest { broadcast_id: id, page_size: 1_000, ..Default::default() };
    let letters = deliveries(&survivor).await.list_dead_letters(request).await.unwrap().into_inner();
    assert!(letters.dead_letters.iter().all(|letter| letter.replayed_by == first.broadcast_id));
    let store = bongsu_store::Store::new(world.stack.database_url(), 2, "test").unwrap();
    assert_eq!(store.broken_invariants().await.unwrap(), []);
    let seen = (world.stats().await, world.deliveries().await);
    world.stack.stop(vec![survivor]).await;
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_interrupted_by_a_kill_and_asked_for_again_repeats_only_what_was_in_flight() {
    let (stats, records) = interrupted(false, 1_000).await;
    assert_eq!((stats.accepted, records.len()), (DEVICES as u64, DEVICES));
    assert!(stats.duplicates <= MOST_REPEATED, "at most --unrecorded: {}", stats.duplicates);
    for record in &records {
        // Once by the original, once by the replay, and once more where the kill came between call and record.
        assert!((2..=3).contains(&record.calls) && (1..=2).contains(&record.accepted), "{record:?}");
    }
    assert!(stats.calls <= 2 * DEVICES as u64 + MOST_REPEATED, "{}", stats.calls);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_honours_the_key_delivers_an_interrupted_replay_exactly_once() {
    let (stats, records) = interrupted(true, 1_000).await;
    assert_eq!((stats.accepted, stats.duplicates), (DEVICES as u64, 0));
    assert!(stats.suppressed <= MOST_REPEATED, "{}", stats.suppressed);
    assert!(records.len() == DEVICES && records.iter().all(|record| record.accepted == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_whose_sender_dies_with_the_answer_is_sent_all_the_same_and_once() {
    let (stats, records) = interrupted(true, 0).await;
    assert_eq!((stats.accepted, stats.duplicates, records.len()), (DEVICES as u64, 0, DEVICES));
}
