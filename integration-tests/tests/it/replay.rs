//! Promise 5: dead letters can be replayed, each once, and nothing that was sent is sent again.

use bongsu_proto::v1::{
    BroadcastState, DeadReason, GetBroadcastRequest, GetStatusRequest, ListDeadLettersRequest,
    PurgeDeadLettersRequest, ReplayDeadLettersRequest, ReplayExclusions, audience_summary,
};
use provider_sim::Behaviour;
use serde_json::json;
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_replayed_once_under_the_keys_of_the_original() {
    let mut world = World::with_sender(Behaviour { dedupe: true, ..Default::default() }).await;
    world.import_good(20).await;
    world.import((0..10).map(|i| format!("rejected-{i}"))).await;
    world.sim.behave(json!({"status": 422})).await;
    let id = world.broadcast("k").await.id;
    assert_eq!(world.finish(id).await.counts.unwrap().dead_rejected, 30);
    world.sim.behave(json!({"status": null})).await;

    let mut deliveries = world.deliveries().await;
    let replay = ReplayDeadLettersRequest {
        replay_id: "again".into(),
        broadcast_id: id,
        reasons: vec![DeadReason::Rejected.into()],
        ..Default::default()
    };
    let dry = ReplayDeadLettersRequest { validate_only: true, ..replay.clone() };
    assert_eq!(deliveries.replay_dead_letters(dry).await.unwrap().into_inner().matching, 30);
    let first = deliveries.replay_dead_letters(replay.clone()).await.unwrap().into_inner();
    let again = deliveries.replay_dead_letters(replay.clone()).await.unwrap().into_inner();
    assert_eq!((first.replayed, again.replayed, first.broadcast_id), (false, true, again.broadcast_id));
    let status = world.finish(first.broadcast_id).await;
    let counts = status.counts.unwrap();
    assert_eq!((status.state(), counts.total), (BroadcastState::Completed, 30));
    assert_eq!((counts.sent, counts.dead_rejected), (20, 10), "what fails again is a dead letter again");
    let stats = world.sim.stats().await;
    assert_eq!((stats.accepted, stats.duplicates, stats.suppressed), (20, 0, 0));
    let request = ListDeadLettersRequest { broadcast_id: id, ..Default::default() };
    let letters = deliveries.list_dead_letters(request).await.unwrap().into_inner().dead_letters;
    assert!(letters.iter().all(|l| l.replayed_by == first.broadcast_id));

    // The provider saw the keys of the original, so it can drop what it had taken all the same.
    let keys = world.sim.keys().await;
    assert!(keys.len() == 30 && keys.iter().all(|key| key.starts_with(&format!("{id}-"))), "{keys:?}");
    let request = GetBroadcastRequest { broadcast_id: first.broadcast_id };
    let child = world.broadcasts.get_broadcast(request).await.unwrap().into_inner().broadcast.unwrap();
    assert_eq!(child.audience.unwrap().kind, Some(audience_summary::Kind::ReplayOf(id)));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_replay_is_refused_with_what_is_wrong() {
    let world = World::with_sender(Behaviour::default()).await;
    let mut deliveries = world.deliveries().await;
    let unknown = ReplayDeadLettersRequest { replay_id: "r".into(), broadcast_id: 7, ..Default::default() };
    let refused = deliveries.replay_dead_letters(unknown).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let wrong = ReplayDeadLettersRequest {
        replay_id: "\u{1}".into(),
        broadcast_id: -1,
        reasons: vec![99],
        provider: "nobody".into(),
        ttl: Some(prost_types::Duration { seconds: 0, nanos: 5 }),
        max_rate_per_second: -1,
        from_time: Some(prost_types::Timestamp { seconds: 60, nanos: 0 }),
        to_time: Some(prost_types::Timestamp { seconds: 60, nanos: 0 }),
        ..Default::default()
    };
    let refused = deliveries.replay_dead_letters(wrong).await.unwrap_err();
    let details = refused.get_error_details();
    let violations = &details.bad_request().unwrap().field_violations;
    let fields: Vec<_> = violations.iter().map(|v| v.field.as_str()).collect();
    for field in
        ["replay_id", "broadcast_id", "reasons[0]", "provider", "ttl", "to_time", "max_rate_per_second"]
    {
        assert!(fields.contains(&field), "{field}: {fields:?}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn devices_can_be_named_and_a_dry_run_says_who_is_left_out_and_why() {
    let mut world = World::with_sender(Behaviour { status: Some(422), ..Default::default() }).await;
    world.import_good(20).await;
    let id = world.broadcast("k").await.id;
    assert_eq!(world.finish(id).await.counts.unwrap().dead_rejected, 20);
    world.sim.behave(json!({"status": null})).await;
    let mut deliveries = world.deliveries().await;
    let request = ListDeadLettersRequest { broadcast_id: id, ..Default::default() };
    let letters = deliveries.list_dead_letters(request).await.unwrap().into_inner().dead_letters;
    let mut device_ids: Vec<_> = letters.iter().take(5).map(|letter| letter.device_id).collect();
    device_ids.extend([device_ids[0], 1_000_000]);

    let named = ReplayDeadLettersRequest {
        replay_id: "named".into(),
        broadcast_id: id,
        device_ids,
        ..Default::default()
    };
    let dry = ReplayDeadLettersRequest { validate_only: true, ..named.clone() };
    let answer = deliveries.replay_dead_letters(dry.clone()).await.unwrap().into_inner();
    let unknown = ReplayExclusions { unknown: 1, ..Default::default() };
    assert_eq!((answer.matching, answer.excluded, answer.partial), (5, Some(unknown), false));
    let child = deliveries.replay_dead_letters(named.clone()).await.unwrap().into_inner().broadcast_id;
    assert_eq!(world.finish(child).await.counts.unwrap().sent, 5);
    let answer = deliveries.replay_dead_letters(dry).await.unwrap().into_inner();
    let left = ReplayExclusions { taken_up: 5, unknown: 1, ..Default::default() };
    assert_eq!((answer.matching, answer.excluded), (0, Some(left)));

    let same = deliveries.replay_dead_letters(named.clone()).await.unwrap().into_inner();
    assert_eq!((same.replayed, same.broadcast_id), (true, child));
    let other = ReplayDeadLettersRequest { device_ids: vec![1], ..named.clone() };
    assert_eq!(deliveries.replay_dead_letters(other).await.unwrap_err().code(), Code::AlreadyExists);
    let both = ReplayDeadLettersRequest {
        code: "422".into(),
        reasons: vec![DeadReason::Rejected.into()],
        ..named.clone()
    };
    assert_eq!(refused_fields(&deliveries.replay_dead_letters(both).await.unwrap_err()), ["reasons", "code"]);
    let many = ReplayDeadLettersRequest { device_ids: (1..=10_001).collect(), ..named };
    assert_eq!(refused_fields(&deliveries.replay_dead_letters(many).await.unwrap_err()), ["device_ids"]);
    world.stop().await;
}

fn refused_fields(refused: &tonic::Status) -> Vec<String> {
    let details = refused.get_error_details();
    details.bad_request().unwrap().field_violations.iter().map(|v| v.field.clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purged_dead_letters_are_gone_and_what_happened_stays_told() {
    let mut world = World::with_sender(Behaviour { status: Some(422), ..Default::default() }).await;
    world.import_good(30).await;
    let id = world.broadcast("k").await.id;
    let before = world.finish(id).await.counts.unwrap();
    let mut deliveries = world.deliveries().await;
    let purge = PurgeDeadLettersRequest { broadcast_id: id, code: "422".into(), ..Default::default() };
    let dry = PurgeDeadLettersRequest { validate_only: true, ..purge.clone() };
    let answer = deliveries.purge_dead_letters(dry).await.unwrap().into_inner();
    assert_eq!((answer.matching, answer.purged, &*answer.next_page_token), (30, 0, ""));
    for purged in [30, 0] {
        let answer = deliveries.purge_dead_letters(purge.clone()).await.unwrap().into_inner();
        assert_eq!((answer.matching, answer.purged, &*answer.next_page_token), (0, purged, ""));
    }
    let request = ListDeadLettersRequest { broadcast_id: id, ..Default::default() };
    let listed = deliveries.list_dead_letters(request).await.unwrap().into_inner().dead_letters;
    assert_eq!(listed.len(), 0);
    let request = GetStatusRequest { broadcast_id: id };
    let status = deliveries.get_status(request).await.unwrap().into_inner().status.unwrap();
    assert_eq!(status.counts.unwrap(), before);
    assert_eq!(world.store().broken_invariants().await.unwrap(), []);

    let unknown = PurgeDeadLettersRequest { broadcast_id: 7, ..Default::default() };
    assert_eq!(deliveries.purge_dead_letters(unknown).await.unwrap_err().code(), Code::NotFound);
    let everything = PurgeDeadLettersRequest::default();
    assert_eq!(
        refused_fields(&deliveries.purge_dead_letters(everything).await.unwrap_err()),
        ["broadcast_id"]
    );
    world.stop().await;
}
